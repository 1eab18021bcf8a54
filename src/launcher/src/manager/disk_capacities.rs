//! The sizes of the running VM's disks, as the guest sees them.

use std::collections::BTreeMap;

use libvirt::BlockInfo;

/// The capacities of the running VM's disks by their sources' paths, as libvirt last reported them. Pure.
///
/// The capacities are cached because QEMU needs many milliseconds to answer. When the launcher attaches, detaches or
/// expands a disk, it forgets all of them. A change by another client of libvirt is noticed before a disk is expanded,
/// because the capacities are read again then.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskCapacities(BTreeMap<String, u64>);

impl DiskCapacities {
    /// The capacity of the disk with this source path, in bytes.
    pub(super) fn get(&self, path: &str) -> Option<u64> {
        self.0.get(path).copied()
    }

    /// Replaces all capacities by those that libvirt reports; it reports 0 for an unknown one.
    pub(super) fn replace(&mut self, sizes: &BTreeMap<String, BlockInfo>) {
        let known = sizes.iter().filter(|(_, size)| size.capacity > 0);
        self.0 = known
            .map(|(path, size)| (path.clone(), size.capacity))
            .collect();
    }

    /// Forgets all capacities.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_that_libvirt_does_not_know_is_not_cached() {
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
