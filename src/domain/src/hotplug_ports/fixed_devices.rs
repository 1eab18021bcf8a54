//! Switches hotplug off at root ports whose devices stay as long as the VM runs, so that the guest cannot eject them.
//!
//! KubeVirt's code for this (v1.10, `DisableHotplugOnOccupiedRootPorts`) finds the bus behind a port by its `busNr`,
//! which libvirt does not print for root ports: no port changes. That bus has the port's index as its number, so the
//! port is found by its index here, and the ports are those that KubeVirt's code means. Ports of devices that the
//! launcher itself detaches keep hotplug, since QEMU refuses to unplug a device from a port without it: disks of
//! volumes that can be hotplugged, and SR-IOV interfaces, which are detached before each migration.

use std::collections::HashSet;

use domain_xml::{Document, Element};
use kubevirt_api::vmi::Vmi;

use crate::hotplug_ports::free_ports::root_port_index;
use crate::hotplug_ports::pci_address::PciAddress;
use crate::hotplug_ports::port_count::uses_port;
use crate::libvirt_spec::{Alias, SRIOV_ALIAS};

/// The devices of a VM that stay as long as the VM runs.
#[derive(Debug)]
pub(crate) struct FixedDevices {
    /// The volumes whose disks can be detached.
    hotpluggable_volumes: HashSet<String>,
}

impl FixedDevices {
    pub(crate) fn of(vmi: &Vmi) -> Self {
        let volumes = vmi.spec.volumes.iter();
        let hotpluggable = volumes.filter(|volume| volume.is_hotpluggable());
        Self {
            hotpluggable_volumes: hotpluggable.map(|volume| volume.name.clone()).collect(),
        }
    }

    /// Switches hotplug off at the root ports of these devices, in libvirt's XML of a domain.
    pub(crate) fn switch_hotplug_off(&self, domain: &mut Document) {
        let devices = domain.root_mut().ensure_child("devices");
        let fixed: HashSet<u32> = devices
            .children()
            .filter(|device| self.contains(device))
            .filter_map(PciAddress::from_device)
            .map(|address| address.bus())
            .collect();
        for port in devices.children_mut() {
            if root_port_index(port).is_some_and(|index| fixed.contains(&index)) {
                port.ensure_child("target").set_attr("hotplug", "off");
            }
        }
    }

    fn contains(&self, device: &Element) -> bool {
        let is_fixed_kind = match device.tag_name() {
            "interface" => false,
            "memory" => true,
            _ => uses_port(device) && root_port_index(device).is_none(),
        };
        let alias = device.child("alias").and_then(|alias| alias.attr("name"));
        is_fixed_kind && !alias.is_some_and(|alias| self.is_detachable(Alias::name_in(&alias)))
    }

    fn is_detachable(&self, alias: &str) -> bool {
        alias.starts_with(SRIOV_ALIAS) || self.hotpluggable_volumes.contains(alias)
    }
}
