//! Tells that the kernel has killed QEMU for lack of memory.
//!
//! Nobody else can tell: the container goes on, so that kubelet does not report it as `OOMKilled`, and libvirt sees a process
//! that is gone. The kernel counts the processes that it kills in each cgroup. Where it kills a cgroup as a whole
//! (`memory.oom.group`), the launcher is killed too, and kubelet reports that.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::blocking;
use crate::notify::Warning;
use crate::sysfs_numa::Sysfs;

const READ_TIMEOUT: Duration = Duration::from_millis(250);

/// The files of the container's cgroup: the counters, and the limit in bytes. Relative to sysfs; cgroup v2, then v1.
const FILES: [(&str, &str); 2] = [
    ("fs/cgroup/memory.events", "fs/cgroup/memory.max"),
    (
        "fs/cgroup/memory/memory.oom_control",
        "fs/cgroup/memory/memory.limit_in_bytes",
    ),
];

/// The processes of the container that the kernel has killed for memory.
pub(super) struct OutOfMemoryKills {
    /// How many there were when the VM started.
    at_start: Mutex<Option<u64>>,
}

impl OutOfMemoryKills {
    /// Those before now do not matter. Blocking, for as long as the kernel takes to format a few numbers.
    pub(super) fn since_now() -> OutOfMemoryKills {
        OutOfMemoryKills {
            at_start: Mutex::new(read(&Sysfs::default()).map(|kills| kills.count)),
        }
    }

    /// The VM starts: earlier kills do not matter.
    pub(super) async fn observe_start(&self) {
        let count = read_in_time().await.map(|kills| kills.count);
        *self.at_start.lock().unwrap_or_else(PoisonError::into_inner) = count;
    }

    /// QEMU has ended without being told to: the warning if processes were killed since the VM's start. There is one warning
    /// for each kill.
    pub(super) async fn observe_crash(&self) -> Option<Warning> {
        let now = read_in_time().await?;
        let mut at_start = self.at_start.lock().unwrap_or_else(PoisonError::into_inner);
        let before = at_start.replace(now.count)?;
        (now.count > before).then(|| warning(&now.limit))
    }
}

/// The kernel counts the processes that it kills for the cgroup's limit and for a node that has no memory left alike.
fn warning(limit: &str) -> Warning {
    let cause = match limit {
        "max" => "the VM's node has no memory left, and its container has no limit".to_owned(),
        limit => format!(
            "the memory of the VM's container has reached its limit of {limit} bytes, or its node has none left. QEMU needs \
             more beside the guest's memory: raise spec.domain.resources.limits.memory of the VM, or \
             additionalGuestMemoryOverheadRatio of the KubeVirt resource"
        ),
    };
    Warning {
        reason: "OOMKilled",
        message: format!("QEMU was killed by the kernel: {cause}"),
    }
}

/// The counter of a cgroup, and its limit.
#[derive(Debug, PartialEq, Eq)]
struct Kills {
    count: u64,
    limit: String,
}

async fn read_in_time() -> Option<Kills> {
    let read = || read(&Sysfs::default());
    let kills = blocking::file_call("reading the cgroup's counters", READ_TIMEOUT, read).await;
    kills.ok().flatten()
}

/// `None` if the kernel counts none, such as before Linux 4.13.
fn read(sysfs: &Sysfs) -> Option<Kills> {
    let (counters, limit) = FILES
        .iter()
        .find_map(|(counters, limit)| Some((sysfs.read(counters)?, limit)))?;
    let mut counts = counters
        .lines()
        .filter_map(|line| line.strip_prefix("oom_kill "));
    let count = counts.next()?.trim().parse().ok()?;
    let limit = sysfs.read(limit).unwrap_or_else(|| "unknown".to_owned());
    Some(Kills {
        count,
        limit: limit.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = root.join("fs/cgroup").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    #[test]
    fn counters_of_cgroup_v1_and_v2_are_read() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        assert_eq!(read(&sysfs), None);
        write(
            root.path(),
            &[
                (
                    "memory/memory.oom_control",
                    "oom_kill_disable 0\nunder_oom 0\n",
                ),
                ("memory/memory.limit_in_bytes", "536870912\n"),
            ],
        );
        assert_eq!(read(&sysfs), None, "an old kernel counts none");
        write(
            root.path(),
            &[(
                "memory/memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            )],
        );
        let kills = |count, limit: &str| {
            let limit = limit.to_owned();
            Some(Kills { count, limit })
        };
        assert_eq!(read(&sysfs), kills(3, "536870912"));
        write(
            root.path(),
            &[(
                "memory.events",
                "low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n",
            )],
        );
        assert_eq!(read(&sysfs), kills(1, "unknown"));
        write(root.path(), &[("memory.max", "max\n")]);
        assert_eq!(read(&sysfs), kills(1, "max"));
    }

    #[test]
    fn container_without_a_limit_has_reached_none() {
        let message = |limit| warning(limit).message;
        assert!(message("536870912").contains("its limit of 536870912 bytes, or its node"));
        assert!(message("max").contains("node has no memory left"));
        assert!(!message("max").contains("raise"));
    }
}
