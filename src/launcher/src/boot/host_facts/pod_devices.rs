//! Devices that Kubernetes assigned to the pod, from device plugins' variables and the network's file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;

use domain::cloud_init::tagged_devices::HostTopology;
use domain::host_facts::{HostFacts, NetworkInfo};

/// Environment variables of device plugins begin with one of these.
const PLUGINS: [&str; 3] = ["PCI_RESOURCE_", "MDEV_PCI_RESOURCE_", "USB_RESOURCE_"];
/// A pod has a handful of interfaces.
const NETWORK_INFO_LIMIT: u64 = 1 << 20;

/// The addresses that device plugins handed over.
pub(super) fn plugins(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    environment
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
        .filter(|(name, _)| PLUGINS.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

/// The pod's interfaces, from the downward API's file. One that cannot be parsed is logged and ignored.
pub(super) fn network_info(path: &Path) -> Option<NetworkInfo> {
    parse_network_info(path)?
        .inspect_err(
            |error| tracing::warn!(file = %path.display(), reason = %error, "not understood"),
        )
        .ok()
}

/// Whether the file describes the pod's interfaces.
pub(super) fn has_network_info(path: &Path) -> bool {
    matches!(parse_network_info(path), Some(Ok(_)))
}

/// `None` without a file, and for one that is empty: the kubelet has nothing to write yet.
fn parse_network_info(path: &Path) -> Option<serde_json::Result<NetworkInfo>> {
    let file = fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(NETWORK_INFO_LIMIT)
        .read_to_string(&mut text)
        .ok()?;
    (!text.trim().is_empty()).then(|| serde_json::from_str(&text))
}

/// Adds the NUMA node of each of the pod's PCI devices that has one, and the processors of these nodes.
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
    let of_plugins = plugins
        .filter(|(name, _)| name.starts_with("PCI_RESOURCE_"))
        .flat_map(|(_, addresses)| addresses.split(','))
        .map(str::trim);
    let interfaces = facts.network_info.iter().flat_map(|info| &info.interfaces);
    let of_networks = interfaces
        .filter_map(|interface| Some(&*interface.device_info.as_ref()?.pci.as_ref()?.address));
    let requests = facts.claimed_devices.values().flat_map(BTreeMap::values);
    let of_claims = requests.map(|device| &*device.pci_address);
    of_plugins.chain(of_networks).chain(of_claims)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use domain::host_facts::{ClaimedDevice, DeviceInfo, NetworkInterface, PciDevice};

    use super::*;
    use crate::sysfs_numa_and_cpus::two_nodes;

    fn plugins_in(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        plugins(
            variables
                .iter()
                .map(|(name, text)| (name.into(), text.into())),
        )
    }

    #[test]
    fn only_variables_of_device_plugins_are_read() {
        let found = plugins_in(&[
            ("PATH", "/bin"),
            ("USB_RESOURCE_X", "1:2"),
            ("PCI_RESOURCE_Y", "a"),
        ]);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["PCI_RESOURCE_Y", "USB_RESOURCE_X"]);
    }

    #[test]
    fn empty_network_information_is_not_malformed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let parse = |text: &str| {
            fs::write(file.path(), text).unwrap();
            parse_network_info(file.path())
        };
        assert!(parse("").is_none());
        assert!(parse("\n").is_none());
        assert!(parse("{").unwrap().is_err());
        assert!(!has_network_info(file.path()));
        assert!(parse(r#"{"interfaces":[]}"#).unwrap().is_ok());
        assert!(has_network_info(file.path()));
    }

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
                device_plugins: plugins_in(&[(
                    "PCI_RESOURCE_Y",
                    "0000:17:00.0, 0000:65:00.2, ../../etc,,x",
                )]),
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
        let sysfs = two_nodes(root.path());
        for mut facts in sources {
            add_numa_nodes(&mut facts, &sysfs);
            assert_eq!(facts.device_numa_nodes, [(DEVICE.into(), 1)].into());
            assert_eq!(facts.numa_cpus, [(1, vec![1, 3])].into());
        }
    }
}
