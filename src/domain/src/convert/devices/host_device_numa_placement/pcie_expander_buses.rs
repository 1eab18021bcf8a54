//! PCIe expander buses of guest cells, with root ports for host devices.

use std::collections::BTreeMap;

use crate::libvirt_spec::{Address, Controller, ControllerTarget, DomainSpec};

/// The highest bus number. Expander buses get bus numbers from here downwards.
const MAX_BUS_NUMBER: u32 = 255;

/// New controllers of a domain, and the addresses of host devices on them.
#[derive(Default)]
pub(super) struct NumaPlacement {
    controllers: Vec<Controller>,
    /// Indices of host devices, and their new addresses.
    addresses: Vec<(usize, Address)>,
}

/// Adds expander buses and root ports to a placement.
pub(super) struct Planner {
    pub(super) placement: NumaPlacement,
    /// The highest index of a controller.
    max_index: u32,
    /// The lowest bus number of an expander bus.
    lowest_bus: u32,
}

impl Planner {
    pub(super) fn new(spec: &DomainSpec) -> Self {
        let controllers = spec.devices.controllers.iter();
        let indices = controllers.filter_map(|controller| controller.index.parse().ok());
        Self {
            placement: NumaPlacement::default(),
            max_index: indices.max().unwrap_or_default(),
            lowest_bus: MAX_BUS_NUMBER,
        }
    }

    pub(super) fn add_bus(
        &mut self,
        cell: u32,
        devices: &BTreeMap<String, usize>,
    ) -> Result<(), String> {
        let bus = self.placement.controllers.len();
        let bus_index = self.add_controller("pcie-expander-bus", None);
        for (slot, (address, index)) in devices.iter().enumerate() {
            if self.max_index >= self.lowest_bus - 1 {
                return Err(format!(
                    "failed to create PCIe topology with NUMA alignment: failed to place device {address}: \
                     insufficient bus numbers for NUMA-aligned PCIe topology: current controller index {}, \
                     last assigned expander bus number {}",
                    self.max_index, self.lowest_bus
                ));
            }
            let port_address = pci_address(&bus_index, &format!("{slot:#04x}"));
            let port = self.add_controller("pcie-root-port", Some(port_address));
            self.placement
                .addresses
                .push((*index, pci_address(&port, "0x00")));
        }
        // The bus numbers above the expander bus are for the buses behind its ports.
        let count = u32::try_from(self.placement.controllers.len()).unwrap_or(MAX_BUS_NUMBER);
        self.lowest_bus = (MAX_BUS_NUMBER + 1).saturating_sub(count).max(1);
        self.placement.controllers[bus].target = Some(ControllerTarget {
            bus_nr: Some(self.lowest_bus),
            numa_node: Some(cell),
            ..ControllerTarget::default()
        });
        Ok(())
    }

    fn add_controller(&mut self, model: &str, address: Option<Address>) -> String {
        self.max_index = self.max_index.saturating_add(1);
        let index = self.max_index.to_string();
        self.placement.controllers.push(Controller {
            kind: "pci".into(),
            index: index.clone(),
            model: model.into(),
            address,
            ..Controller::default()
        });
        index
    }
}

fn pci_address(bus: &str, slot: &str) -> Address {
    Address {
        kind: "pci".into(),
        domain: "0x0000".into(),
        bus: bus.into(),
        slot: slot.into(),
        function: "0x0".into(),
        ..Address::default()
    }
}

impl NumaPlacement {
    pub(super) fn apply(self, spec: &mut DomainSpec) {
        spec.devices.controllers.extend(self.controllers);
        for (index, address) in self.addresses {
            if let Some(device) = spec.devices.host_devices.get_mut(index) {
                device.address = Some(address);
            }
        }
    }
}
