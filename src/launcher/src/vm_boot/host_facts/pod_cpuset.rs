//! Reads the CPUs that the pod may use: those of its cgroup, or else of the launcher's affinity.

use domain::host_facts::HostFacts;

use super::READ_TIMEOUT;
use crate::blocking::{self, NoAnswer};
use crate::sysfs_numa::{Sysfs, parse_cpu_list};

/// The files with the CPUs of the pod's cgroup, relative to sysfs: cgroup v2, then v1.
const CPUSET_FILES: [&str; 2] = [
    "fs/cgroup/cpuset.cpus.effective",
    "fs/cgroup/cpuset/cpuset.cpus",
];

/// The facts with the CPUs that the pod may use now.
///
/// # Errors
/// [`NoAnswer`] if sysfs hangs.
pub(crate) async fn with_current_cpus(facts: HostFacts) -> Result<HostFacts, NoAnswer> {
    let read = move || HostFacts {
        cpuset: cpuset(),
        ..facts
    };
    blocking::file_call("reading the pod's processors", READ_TIMEOUT, read).await
}

/// The CPUs that the pod may use, by its cgroup or else by the launcher's affinity.
pub(super) fn cpuset() -> Vec<u32> {
    let cpus = cgroup_cpus(&Sysfs::default());
    if cpus.is_empty() { affinity() } else { cpus }
}

fn affinity() -> Vec<u32> {
    let set = rustix::thread::sched_getaffinity(None).ok();
    let Some(set) = set else { return Vec::new() };
    (0..1024u32)
        .filter(|cpu| set.is_set(*cpu as usize))
        .collect()
}

/// The CPUs that the pod's cgroup may use; empty if no list can be read.
fn cgroup_cpus(sysfs: &Sysfs) -> Vec<u32> {
    let mut lists = CPUSET_FILES.iter().filter_map(|path| sysfs.read(path));
    lists
        .next()
        .map(|text| parse_cpu_list(&text))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
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
