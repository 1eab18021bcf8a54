//! Reads NUMA nodes of PCI devices, and the CPUs of NUMA nodes, from sysfs.

use std::fs;
use std::path::{Path, PathBuf};

use domain::host_numa_topology::HostTopology;

/// sysfs, mounted at a directory.
#[derive(Debug, Clone)]
pub(crate) struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    /// The host's sysfs, at `/sys`.
    fn default() -> Self {
        Self::at(Path::new("/sys"))
    }
}

impl Sysfs {
    /// A sysfs that is mounted at `root`.
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The content of a file, by its path relative to the mount; `None` if it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }
}

impl HostTopology for Sysfs {
    /// `None` also for an invalid address, and for a device whose node the firmware does not report (-1).
    fn numa_node(&self, pci_address: &str) -> Option<u32> {
        let is_address = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
        if pci_address.is_empty() || !pci_address.bytes().all(is_address) {
            return None;
        }
        let text = self.read(&format!("bus/pci/devices/{pci_address}/numa_node"))?;
        text.trim().parse().ok()
    }

    fn node_cpus(&self, node: u32) -> Vec<u32> {
        let list = self.read(&format!("bus/node/devices/node{node}/cpulist"));
        list.map(|text| parse_cpu_list(&text)).unwrap_or_default()
    }
}

/// Parses the kernel's list format, such as `0-3,8`. Malformed parts are left out.
pub(crate) fn parse_cpu_list(text: &str) -> Vec<u32> {
    const MAX_CPUS: u32 = 65_536;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < MAX_CPUS).then_some(first..=last)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// A sysfs with two NUMA nodes of two CPUs each, and a device at `0000:65:00.2` on the second node.
#[cfg(test)]
pub(crate) fn sysfs_with_two_nodes(root: &Path) -> Sysfs {
    let files = [
        ("bus/pci/devices/0000:65:00.2/numa_node", "1\n"),
        ("bus/pci/devices/0000:17:00.0/numa_node", "-1\n"),
        ("bus/node/devices/node0/cpulist", "0,2\n"),
        ("bus/node/devices/node1/cpulist", "1,3\n"),
    ];
    for (path, text) in files {
        let path = root.join(path);
        let directory = path.parent().unwrap_or(root);
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&path, text))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    Sysfs::at(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed() {
        assert_eq!(parse_cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpu_list("5"), [5]);
        assert_eq!(parse_cpu_list("\n"), [0u32; 0]);
        assert_eq!(parse_cpu_list("x,1-,4-,2-4294967295,7"), [7]);
    }

    #[test]
    fn numa_node_and_its_cpus_are_read() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = sysfs_with_two_nodes(root.path());
        assert_eq!(sysfs.numa_node("0000:65:00.2"), Some(1));
        assert_eq!(sysfs.node_cpus(1), [1, 3]);
        assert_eq!(sysfs.numa_node("0000:17:00.0"), None, "-1");
        assert_eq!(sysfs.numa_node("0000:00:00.0"), None, "no such device");
        assert_eq!(sysfs.node_cpus(7), [0u32; 0]);
    }

    #[test]
    fn address_with_path_traversal_has_no_numa_node() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = sysfs_with_two_nodes(root.path());
        fs::create_dir_all(root.path().join("bus/etc")).unwrap();
        fs::write(root.path().join("bus/etc/numa_node"), "0").unwrap();
        fs::write(root.path().join("bus/pci/devices/numa_node"), "0").unwrap();
        assert_eq!(sysfs.numa_node("../../etc"), None);
        assert_eq!(sysfs.numa_node(""), None);
    }
}
