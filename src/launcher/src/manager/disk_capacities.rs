//! How large the guest sees its disks.

use std::collections::BTreeMap;

use libvirt::BlockInfo;

/// The capacities of the running VM's disks by their sources' paths, as libvirt last reported them. Pure.
///
/// To ask for them takes QEMU many milliseconds. A capacity changes when the launcher attaches, detaches or expands a disk,
/// and then all are forgotten. One that another client of libvirt has changed is noticed before a disk is expanded, because
/// sizes are read again then.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskCapacities(BTreeMap<String, u64>);

impl DiskCapacities {
    /// Of this disk, in bytes.
    pub(super) fn get(&self, path: &str) -> Option<u64> {
        self.0.get(path).copied()
    }

    /// libvirt has reported the sizes of all disks. It reports 0 for a size that it does not know.
    pub(super) fn replace(&mut self, sizes: &BTreeMap<String, BlockInfo>) {
        let known = sizes.iter().filter(|(_, size)| size.capacity > 0);
        self.0 = known
            .map(|(path, size)| (path.clone(), size.capacity))
            .collect();
    }

    /// Disks change.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_sizes_are_not_remembered() {
        let size = |capacity| BlockInfo {
            capacity,
            ..BlockInfo::default()
        };
        let mut capacities = DiskCapacities::default();
        capacities.replace(&BTreeMap::from([
            ("a".into(), size(5)),
            ("b".into(), size(0)),
        ]));
        assert_eq!((capacities.get("a"), capacities.get("b")), (Some(5), None));
        capacities.forget();
        assert_eq!(capacities.get("a"), None);
    }
}
