//! Looks up the NUMA nodes of the PCI devices that the pod may use.

use std::collections::BTreeMap;

use domain::host_facts::HostFacts;
use domain::host_numa_topology::HostTopology;

/// Adds the NUMA node of each PCI device of the pod that has one, and the CPUs of these nodes.
pub(super) fn add_numa_nodes(facts: &mut HostFacts, topology: &dyn HostTopology) {
    let nodes = pci_addresses(facts)
        .filter_map(|address| Some((address.to_owned(), topology.numa_node(address)?)));
    facts.device_numa_nodes = nodes.collect();
    let nodes = facts.device_numa_nodes.values();
    facts.numa_cpus = nodes
        .map(|node| (*node, topology.node_cpus(*node)))
        .collect();
}

/// The addresses of all PCI devices that the pod may use: from device plugins, networks and resource claims.
fn pci_addresses(facts: &HostFacts) -> impl Iterator<Item = &str> {
    let plugins = facts.device_plugins.iter();
    let plugin_addresses = plugins
        .filter(|(name, _)| name.starts_with("PCI_RESOURCE_"))
        .flat_map(|(_, addresses)| addresses.split(','))
        .map(str::trim);
    let interfaces = facts.network_info.iter().flat_map(|info| &info.interfaces);
    let network_addresses = interfaces
        .filter_map(|interface| Some(&*interface.device_info.as_ref()?.pci.as_ref()?.address));
    let requests = facts.claimed_devices.values().flat_map(BTreeMap::values);
    let claim_addresses = requests.map(|device| &*device.pci_address);
    plugin_addresses
        .chain(network_addresses)
        .chain(claim_addresses)
}

#[cfg(test)]
mod tests {
    use domain::host_facts::{ClaimedDevice, DeviceInfo, NetworkInfo, NetworkInterface, PciDevice};

    use super::*;
    use crate::sysfs_numa::sysfs_with_two_nodes;

    #[test]
    fn devices_of_plugins_networks_and_claims_have_a_numa_node() {
        const DEVICE: &str = "0000:65:00.2";
        let interface = NetworkInterface {
            network: "fast".into(),
            device_info: Some(DeviceInfo {
                pci: Some(PciDevice {
                    address: DEVICE.into(),
                }),
            }),
        };
        let claimed = ClaimedDevice {
            pci_address: DEVICE.into(),
            ..ClaimedDevice::default()
        };
        let sources = [
            HostFacts {
                device_plugins: [(
                    "PCI_RESOURCE_Y".into(),
                    "0000:17:00.0, 0000:65:00.2, ../../etc,,x".into(),
                )]
                .into(),
                ..HostFacts::default()
            },
            HostFacts {
                network_info: Some(NetworkInfo {
                    interfaces: vec![interface],
                }),
                ..HostFacts::default()
            },
            HostFacts {
                claimed_devices: [("claim".into(), [("vf".into(), claimed)].into())].into(),
                ..HostFacts::default()
            },
        ];
        let root = tempfile::tempdir().unwrap();
        let sysfs = sysfs_with_two_nodes(root.path());
        for mut facts in sources {
            add_numa_nodes(&mut facts, &sysfs);
            assert_eq!(facts.device_numa_nodes, [(DEVICE.into(), 1)].into());
            assert_eq!(facts.numa_cpus, [(1, vec![1, 3])].into());
        }
    }
}
