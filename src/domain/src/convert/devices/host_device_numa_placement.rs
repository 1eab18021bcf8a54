//! Host devices on a PCIe bus of their NUMA node, so that the guest's drivers know which memory is near: an expander
//! bus for each guest cell, a root port for each device.

use std::collections::BTreeMap;

use crate::convert::compute::cpu_pinning::is_numa_passed_through;
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Address, Controller, ControllerTarget, DomainSpec, HostDevice};

/// Expander buses get bus numbers from here downwards.
const LAST_BUS: u32 = 255;

/// The additions to a domain.
#[derive(Default)]
struct Plan {
    controllers: Vec<Controller>,
    /// Indices of host devices, and their new addresses.
    addresses: Vec<(usize, Address)>,
}

pub(crate) fn place(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let cpu = context.vmi.spec.domain.cpu.as_ref();
    let Some(cpu) = cpu.filter(|cpu| cpu.dedicated_cpu_placement) else {
        return Ok(());
    };
    if !context.cluster.pci_numa_aware_topology_enabled {
        return Ok(());
    }
    match plan(context, spec, is_numa_passed_through(cpu)) {
        Ok(plan) => plan.apply(spec),
        Err(message) if is_numa_passed_through(cpu) => {
            return Err(ConvertError::refused(format!(
                "failed to process strict PCIe NUMA-aware topology: {message}"
            )));
        }
        // Without guest NUMA the placement is an optimisation.
        Err(_) => {}
    }
    Ok(())
}

fn plan(context: &Context<'_>, spec: &DomainSpec, is_strict: bool) -> Result<Plan, String> {
    let mut by_cell: BTreeMap<u32, BTreeMap<String, usize>> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut movable = Vec::new();
    let devices = spec.devices.host_devices.iter().enumerate();
    for (place, device) in devices.filter(|(_, device)| device.kind == "pci") {
        match movable_address(device) {
            Ok(address) => movable.push((address, place)),
            Err(failure) => failures.push(failure),
        }
    }
    movable.sort();
    for (address, place) in movable {
        match nearest_cell(context, spec, &address) {
            Ok(cell) => {
                by_cell.entry(cell).or_default().insert(address, place);
            }
            Err(reason) => failures.push(format!(
                "device {address} cannot be placed on a NUMA-aware PCIe topology: {reason}"
            )),
        }
    }
    if is_strict && !failures.is_empty() {
        return Err(format!(
            "strict PCI NUMA-aware placement failed: {}",
            failures.join("; ")
        ));
    }
    let mut planner = Planner::new(spec);
    for (cell, devices) in by_cell {
        planner.add_bus(cell, &devices)?;
    }
    Ok(planner.plan)
}

/// The host address of a device whose guest address is free to choose.
fn movable_address(device: &HostDevice) -> Result<String, String> {
    let source = device.source.address.as_ref().ok_or_else(|| {
        "PCI host device has no source address, skipping pcie-expander-bus assignment".to_owned()
    })?;
    let address = text(source);
    if device.address.as_ref().is_some_and(is_given) {
        return Err(format!(
            "device {address} already has a guest PCI address, skipping pcie-expander-bus assignment"
        ));
    }
    Ok(address)
}

fn is_given(address: &Address) -> bool {
    let parts = [
        &address.domain,
        &address.bus,
        &address.slot,
        &address.function,
    ];
    parts.into_iter().any(|part| !part.is_empty())
}

/// `0000:65:00.2`.
fn text(address: &Address) -> String {
    let part = |part: &str| part.trim_start_matches("0x").to_owned();
    format!(
        "{}:{}:{}.{}",
        part(&address.domain),
        part(&address.bus),
        part(&address.slot),
        part(&address.function)
    )
}

/// The guest cell of a device's NUMA node: by the cell's memory, or else by a processor pinned to the node.
fn nearest_cell(context: &Context<'_>, spec: &DomainSpec, address: &str) -> Result<u32, String> {
    let numa = spec
        .cpu
        .numa
        .as_ref()
        .ok_or("no guest NUMA node mapping is available")?;
    let node = *context
        .host
        .device_numa_nodes
        .get(address)
        .ok_or("failed to read host NUMA affinity: the device has none")?;
    if let Some(cell) = by_memory(spec, node) {
        return Ok(cell);
    }
    let pins = spec.cpu_tune.iter().flat_map(|tune| &tune.vcpu_pin);
    let cpus = context.host.numa_cpus.get(&node);
    let vcpus: Vec<_> = pins
        .filter(|pin| cpus.is_some_and(|cpus| cpus.iter().any(|cpu| cpu.to_string() == pin.cpuset)))
        .map(|pin| pin.vcpu)
        .collect();
    let mut cells = numa.cells.iter();
    let cell = cells.find(|cell| vcpus.iter().any(|vcpu| list_contains(&cell.cpus, *vcpu)));
    cell.and_then(|cell| cell.id.parse().ok())
        .ok_or_else(|| format!("host NUMA node {node} cannot be mapped to a guest NUMA cell"))
}

/// Whether a list such as `0-3,8` contains the number.
fn list_contains(list: &str, number: u32) -> bool {
    list.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let within = |first: u32, last: u32| (first..=last).contains(&number);
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if within(first, last))
    })
}

/// The cell whose memory comes from this node, if there is only one.
fn by_memory(spec: &DomainSpec, node: u32) -> Option<u32> {
    let tune = spec.numa_tune.as_ref()?;
    let node = node.to_string();
    let mut cells = tune
        .mem_nodes
        .iter()
        .filter(|mem_node| mem_node.node_set == node)
        .map(|mem_node| mem_node.cell_id);
    cells.next().filter(|_| cells.next().is_none())
}

/// Adds buses and counts controllers.
struct Planner {
    plan: Plan,
    /// The highest index of a controller.
    index: u32,
    lowest_bus: u32,
}

impl Planner {
    fn new(spec: &DomainSpec) -> Self {
        let controllers = spec.devices.controllers.iter();
        let indices = controllers.filter_map(|controller| controller.index.parse().ok());
        Self {
            plan: Plan::default(),
            index: indices.max().unwrap_or_default(),
            lowest_bus: LAST_BUS,
        }
    }

    fn add_bus(&mut self, cell: u32, devices: &BTreeMap<String, usize>) -> Result<(), String> {
        let bus = self.plan.controllers.len();
        let bus_index = self.add_controller("pcie-expander-bus", None);
        for (slot, (address, place)) in devices.iter().enumerate() {
            if self.index >= self.lowest_bus - 1 {
                return Err(format!(
                    "failed to create PCIe topology with NUMA alignment: failed to place device {address}: \
                     insufficient bus numbers for NUMA-aligned PCIe topology: current controller index {}, \
                     last assigned expander bus number {}",
                    self.index, self.lowest_bus
                ));
            }
            let port_address = pci(&bus_index, &format!("{slot:#04x}"));
            let port = self.add_controller("pcie-root-port", Some(port_address));
            self.plan.addresses.push((*place, pci(&port, "0x00")));
        }
        // The bus numbers above are for the ports behind the bus.
        let count = u32::try_from(self.plan.controllers.len()).unwrap_or(LAST_BUS);
        self.lowest_bus = (LAST_BUS + 1).saturating_sub(count).max(1);
        self.plan.controllers[bus].target = Some(ControllerTarget {
            bus_nr: Some(self.lowest_bus),
            numa_node: Some(cell),
        });
        Ok(())
    }

    fn add_controller(&mut self, model: &str, address: Option<Address>) -> String {
        self.index = self.index.saturating_add(1);
        let index = self.index.to_string();
        self.plan.controllers.push(Controller {
            kind: "pci".into(),
            index: index.clone(),
            model: model.into(),
            address,
            ..Controller::default()
        });
        index
    }
}

fn pci(bus: &str, slot: &str) -> Address {
    Address {
        kind: "pci".into(),
        domain: "0x0000".into(),
        bus: bus.into(),
        slot: slot.into(),
        function: "0x0".into(),
        ..Address::default()
    }
}

impl Plan {
    fn apply(self, spec: &mut DomainSpec) {
        spec.devices.controllers.extend(self.controllers);
        for (place, address) in self.addresses {
            if let Some(device) = spec.devices.host_devices.get_mut(place) {
                device.address = Some(address);
            }
        }
    }
}
