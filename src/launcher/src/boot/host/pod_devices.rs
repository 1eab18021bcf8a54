//! Devices that Kubernetes assigned to the pod, from device plugins' variables and the network's file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;

use domain::host::NetworkInfo;

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
    let file = fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(NETWORK_INFO_LIMIT)
        .read_to_string(&mut text)
        .ok()?;
    serde_json::from_str(&text)
        .inspect_err(
            |error| tracing::warn!(file = %path.display(), reason = %error, "not understood"),
        )
        .ok()
}

/// The NUMA node of each PCI device that has one.
pub(super) fn numa_nodes(plugins: &BTreeMap<String, String>) -> BTreeMap<String, u32> {
    let node = |address: &str| {
        let path = format!("/sys/bus/pci/devices/{address}/numa_node");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    pci_addresses(plugins)
        .filter_map(|address| Some((address.to_owned(), node(address)?)))
        .collect()
}

/// The processors of every NUMA node; asked for only where there are devices to place.
pub(super) fn numa_cpus(
    plugins: &BTreeMap<String, String>,
    cpu_list: fn(&str) -> Vec<u32>,
) -> BTreeMap<u32, Vec<u32>> {
    if pci_addresses(plugins).next().is_none() {
        return BTreeMap::new();
    }
    let Ok(nodes) = fs::read_dir("/sys/bus/node/devices") else {
        return BTreeMap::new();
    };
    nodes
        .filter_map(|node| {
            let node = node.ok()?;
            let number = node
                .file_name()
                .to_str()?
                .strip_prefix("node")?
                .parse()
                .ok()?;
            let listed = fs::read_to_string(node.path().join("cpulist")).ok()?;
            Some((number, cpu_list(&listed)))
        })
        .collect()
}

/// Addresses that can be a name in sysfs; others are conversion's to refuse.
fn pci_addresses(plugins: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    plugins
        .iter()
        .filter(|(name, _)| name.starts_with("PCI_RESOURCE_"))
        .flat_map(|(_, addresses)| addresses.split(','))
        .map(str::trim)
        .filter(|address| {
            !address.is_empty()
                && address
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        plugins(
            variables
                .iter()
                .map(|(name, text)| (name.into(), text.into())),
        )
    }

    #[test]
    fn only_variables_of_device_plugins_are_read() {
        let found = given(&[
            ("PATH", "/bin"),
            ("USB_RESOURCE_X", "1:2"),
            ("PCI_RESOURCE_Y", "a"),
        ]);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["PCI_RESOURCE_Y", "USB_RESOURCE_X"]);
    }

    #[test]
    fn address_cannot_leave_sysfs() {
        let found = given(&[("PCI_RESOURCE_Y", "0000:65:00.2, ../../etc,,x")]);
        let addresses: Vec<_> = pci_addresses(&found).collect();
        assert_eq!(addresses, ["0000:65:00.2"]);
        assert!(numa_nodes(&found).len() <= 1);
    }
}
