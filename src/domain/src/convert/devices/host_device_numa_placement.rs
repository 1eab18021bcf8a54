//! Places host devices on a PCIe bus of their NUMA node, so that the guest's drivers know which memory is near: an
//! expander bus for each guest cell, a root port for each device.

mod pcie_expander_buses;

use std::collections::BTreeMap;

use crate::convert::compute::cpu_pinning::is_numa_passed_through;
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Address, DomainSpec, HostDevice};
use pcie_expander_buses::{NumaPlacement, Planner};

pub(crate) fn place(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let cpu = context.vmi.spec.domain.cpu.as_ref();
    let Some(cpu) = cpu.filter(|cpu| cpu.dedicated_cpu_placement) else {
        return Ok(());
    };
    if !context.cluster.pci_numa_aware_topology_enabled || !context.architecture.can_place_on_pcie()
    {
        return Ok(());
    }
    match plan_placement(context, spec, is_numa_passed_through(cpu)) {
        Ok(placement) => placement.apply(spec),
        Err(message) if is_numa_passed_through(cpu) => {
            return Err(ConvertError::invalid(format!(
                "failed to process strict PCIe NUMA-aware topology: {message}"
            )));
        }
        // Without guest NUMA the placement is only an optimisation.
        Err(_) => {}
    }
    Ok(())
}

fn plan_placement(
    context: &Context<'_>,
    spec: &DomainSpec,
    is_strict: bool,
) -> Result<NumaPlacement, String> {
    let mut devices_by_cell: BTreeMap<u32, BTreeMap<String, usize>> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut movable = Vec::new();
    let devices = spec.devices.host_devices.iter().enumerate();
    for (index, device) in devices.filter(|(_, device)| device.kind == "pci") {
        match movable_address(device) {
            Ok(address) => movable.push((address, index)),
            Err(failure) => failures.push(failure),
        }
    }
    movable.sort();
    for (address, index) in movable {
        match nearest_cell(context, spec, &address) {
            Ok(cell) => {
                devices_by_cell
                    .entry(cell)
                    .or_default()
                    .insert(address, index);
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
    for (cell, devices) in devices_by_cell {
        planner.add_bus(cell, &devices)?;
    }
    Ok(planner.placement)
}

/// The host address of a device that has no guest address yet.
fn movable_address(device: &HostDevice) -> Result<String, String> {
    let source = device.source.address.as_ref().ok_or_else(|| {
        "PCI host device has no source address, skipping pcie-expander-bus assignment".to_owned()
    })?;
    let address = format_address(source);
    if device.address.as_ref().is_some_and(has_pci_address) {
        return Err(format!(
            "device {address} already has a guest PCI address, skipping pcie-expander-bus assignment"
        ));
    }
    Ok(address)
}

fn has_pci_address(address: &Address) -> bool {
    let parts = [
        &address.domain,
        &address.bus,
        &address.slot,
        &address.function,
    ];
    parts.into_iter().any(|part| !part.is_empty())
}

/// The address as `0000:65:00.2`.
fn format_address(address: &Address) -> String {
    let part = |part: &str| part.trim_start_matches("0x").to_owned();
    format!(
        "{}:{}:{}.{}",
        part(&address.domain),
        part(&address.bus),
        part(&address.slot),
        part(&address.function)
    )
}

/// The guest cell of a device's NUMA node: the cell with memory of the node, else a cell with a vCPU that is pinned to
/// the node.
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
    if let Some(cell) = cell_by_memory(spec, node) {
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
        let contains = |first: u32, last: u32| (first..=last).contains(&number);
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if contains(first, last))
    })
}

/// The cell whose memory comes from this node, if there is only one.
fn cell_by_memory(spec: &DomainSpec, node: u32) -> Option<u32> {
    let tune = spec.numa_tune.as_ref()?;
    let node = node.to_string();
    let mut cells = tune
        .mem_nodes
        .iter()
        .filter(|mem_node| mem_node.node_set == node)
        .map(|mem_node| mem_node.cell_id);
    cells.next().filter(|_| cells.next().is_none())
}
