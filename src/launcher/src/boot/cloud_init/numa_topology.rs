//! Where host devices sit, from sysfs.

use std::fs;

use domain::cloud_init::devices::HostTopology;

/// The node's own `/sys`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SysTopology;

impl HostTopology for SysTopology {
    fn numa_node(&self, pci_address: &str) -> Option<u32> {
        let is_address = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
        if !pci_address.chars().all(is_address) {
            return None;
        }
        // -1 where the firmware does not say.
        let path = format!("/sys/bus/pci/devices/{pci_address}/numa_node");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    fn node_cpus(&self, node: u32) -> Vec<u32> {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        fs::read_to_string(path)
            .map(|list| cpu_list(list.trim()))
            .unwrap_or_default()
    }
}

/// Parses `0-3,8,10-11`; malformed parts are ignored.
fn cpu_list(text: &str) -> Vec<u32> {
    const MAX_CPUS: usize = 65_536;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    text.split(',')
        .filter_map(range)
        .flatten()
        .take(MAX_CPUS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed() {
        assert_eq!(cpu_list("0-2,8,10-11"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(cpu_list(""), [] as [u32; 0]);
        assert_eq!(cpu_list("x,4-,7"), [7]);
        assert_eq!(SysTopology.numa_node("../../etc"), None);
    }
}
