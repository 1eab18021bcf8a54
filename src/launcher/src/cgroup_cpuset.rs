//! Reads the CPUs that the pod's cgroup may use.

use crate::sysfs_numa::{Sysfs, parse_cpu_list};

/// The files with the CPUs of the pod's cgroup, relative to sysfs: cgroup v2, then v1.
const CPUSET_FILES: [&str; 2] = [
    "fs/cgroup/cpuset.cpus.effective",
    "fs/cgroup/cpuset/cpuset.cpus",
];

/// The CPUs that the pod's cgroup may use; empty if no list can be read.
pub(crate) fn cgroup_cpus(sysfs: &Sysfs) -> Vec<u32> {
    let mut lists = CPUSET_FILES.iter().filter_map(|path| sysfs.read(path));
    lists
        .next()
        .map(|text| parse_cpu_list(&text))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn cgroup_v2_is_read_before_cgroup_v1() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        assert_eq!(cgroup_cpus(&sysfs), [0u32; 0]);
        let v1 = root.path().join("fs/cgroup/cpuset");
        fs::create_dir_all(&v1).unwrap();
        fs::write(v1.join("cpuset.cpus"), "4-5\n").unwrap();
        assert_eq!(cgroup_cpus(&sysfs), [4, 5]);
        let v2 = root.path().join("fs/cgroup/cpuset.cpus.effective");
        fs::write(v2, "6\n").unwrap();
        assert_eq!(cgroup_cpus(&sysfs), [6]);
    }
}
