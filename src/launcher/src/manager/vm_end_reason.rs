//! The reason of the VM's end, for when libvirt does not report it: its daemon hangs, or the domain is transient and
//! disappears when it ends. Pure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::{Detail, Event, LifecycleEvent};

use crate::blocking;
use crate::libvirt_client::{DomainSnapshot, Presence};
use crate::notify::Warning;
use crate::sysfs_numa::Sysfs;
use crate::vm_events::VmEvent;

/// KubeVirt's reason of a `Shutoff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndReason {
    reason: &'static str,
    /// Whether QEMU's process has exited. libvirt may not have noticed that yet.
    has_ended: bool,
}

impl Default for EndReason {
    /// A QEMU process that exits without a request has crashed.
    fn default() -> Self {
        EndReason {
            reason: reason::CRASHED,
            has_ended: false,
        }
    }
}

impl EndReason {
    /// The reason as far as it is known.
    pub(super) fn reason(self) -> &'static str {
        self.reason
    }

    /// Corrects a snapshot of libvirt's daemon. A daemon that was down while the guest powered off reports a crash; one
    /// that was down while the guest migrated does not report that it migrated; one that gave up ending QEMU, which a
    /// frozen cgroup makes immune to SIGKILL until it is thawed, does not know why it ended; a busy one still reports a
    /// domain whose process has exited.
    pub(super) fn correct(self, snapshot: DomainSnapshot) -> DomainSnapshot {
        if self.has_ended
            && snapshot.presence() == Presence::Active
            && let Some(spec) = &snapshot.spec
        {
            return DomainSnapshot::shut_off(Arc::clone(spec), self.reason);
        }
        let is_wrong = match self.reason {
            reason::SHUTDOWN => snapshot.reason == reason::CRASHED,
            reason::DESTROYED => is_end_by_a_signal(snapshot.reason),
            reason::MIGRATED => true,
            _ => false,
        };
        match is_wrong && snapshot.status == LifeCycle::Shutoff {
            true => DomainSnapshot {
                reason: self.reason,
                ..snapshot
            },
            false => snapshot,
        }
    }

    /// Updates the reason after an event.
    pub(super) fn observe(&mut self, event: &VmEvent) {
        match event {
            VmEvent::QemuExited => self.has_ended = true,
            VmEvent::StartingUp => self.has_ended = false,
            VmEvent::EndingAfterMigration => self.reason = reason::MIGRATED,
            VmEvent::Destroying if self.reason != reason::MIGRATED => {
                self.reason = reason::DESTROYED;
            }
            VmEvent::PowerOffRequested if self.reason == reason::CRASHED => {
                self.reason = reason::SHUTDOWN;
            }
            VmEvent::Libvirt(Event::Lifecycle { event, detail, .. }) => {
                self.observe_lifecycle(*event, *detail);
            }
            _ => {}
        }
    }

    fn observe_lifecycle(&mut self, event: LifecycleEvent, detail: Detail) {
        match (event, detail) {
            (LifecycleEvent::Started, _) => *self = EndReason::default(),
            _ if self.reason == reason::MIGRATED => {}
            // The guest has powered off; QEMU ends by itself or is ended.
            (LifecycleEvent::Shutdown, Detail::Finished | Detail::Guest) => {
                self.reason = reason::SHUTDOWN;
            }
            (LifecycleEvent::Stopped, detail) => {
                if let Some(reason) = reason_of_stop(detail)
                    && !(self.reason == reason::DESTROYED && is_end_by_a_signal(reason))
                {
                    self.reason = reason;
                }
            }
            _ => {}
        }
    }
}

/// Whether libvirt has seen QEMU end without having been told to end it. If the launcher was ending it, its signal was the
/// cause.
fn is_end_by_a_signal(reason: &str) -> bool {
    matches!(reason, reason::CRASHED | reason::UNKNOWN)
}

fn reason_of_stop(detail: Detail) -> Option<&'static str> {
    match detail {
        Detail::Shutdown => Some(reason::SHUTDOWN),
        Detail::Destroyed => Some(reason::DESTROYED),
        // libvirt reports one of these for a QEMU that was killed.
        Detail::Crashed | Detail::Failed => Some(reason::CRASHED),
        Detail::Migrated => Some(reason::MIGRATED),
        Detail::Saved => Some("Saved"),
        Detail::FromSnapshot => Some("FromSnapshot"),
        _ => None,
    }
}

// Tells that the kernel has killed QEMU for lack of memory.
//
// Nobody else can tell: the container goes on, so that kubelet does not report it as `OOMKilled`, and libvirt sees a process
// that is gone. The kernel counts the processes that it kills in each cgroup. Where it kills a cgroup as a whole
// (`memory.oom.group`), the launcher is killed too, and kubelet reports that.

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

    fn reason_after(events: &[VmEvent]) -> &'static str {
        let mut end = EndReason::default();
        events.iter().for_each(|event| end.observe(event));
        end.reason()
    }

    fn lifecycle(event: LifecycleEvent, detail: Detail) -> VmEvent {
        VmEvent::Libvirt(Event::Lifecycle {
            domain: "default_vm1".into(),
            event,
            detail,
        })
    }

    #[test]
    fn end_without_a_request_is_a_crash() {
        let started = lifecycle(LifecycleEvent::Started, Detail::Booted);
        assert_eq!(reason_after(&[]), "Crashed");
        assert_eq!(reason_after(&[started]), "Crashed");
    }

    #[test]
    fn guest_that_powered_off_was_shut_down() {
        let powered_off = lifecycle(LifecycleEvent::Shutdown, Detail::Guest);
        assert_eq!(reason_after(std::slice::from_ref(&powered_off)), "Shutdown");
        let started = lifecycle(LifecycleEvent::Started, Detail::Booted);
        assert_eq!(reason_after(&[powered_off, started]), "Crashed");
    }

    #[test]
    fn guest_that_was_asked_to_power_off_is_shut_down_if_libvirt_missed_its_end() {
        let mut end = EndReason::default();
        let crashed = DomainSnapshot {
            status: LifeCycle::Shutoff,
            reason: reason::CRASHED,
            spec: None,
        };
        assert_eq!(end.correct(crashed.clone()).reason, "Crashed");
        end.observe(&VmEvent::PowerOffRequested);
        assert_eq!(end.correct(crashed.clone()).reason, "Shutdown");
        // The reason that libvirt observed takes precedence.
        end.observe(&lifecycle(LifecycleEvent::Stopped, Detail::Failed));
        assert_eq!(end.correct(crashed).reason, "Crashed");
    }

    #[test]
    fn end_after_a_migration_is_migrated_despite_libvirts_reason() {
        let stopped = lifecycle(LifecycleEvent::Stopped, Detail::Destroyed);
        let mut end = EndReason::default();
        for event in [VmEvent::EndingAfterMigration, VmEvent::Destroying, stopped] {
            end.observe(&event);
        }
        let destroyed = DomainSnapshot {
            status: LifeCycle::Shutoff,
            reason: reason::DESTROYED,
            spec: None,
        };
        assert_eq!(end.correct(destroyed.clone()).reason, "Migrated");
        end.observe(&lifecycle(LifecycleEvent::Started, Detail::Booted));
        assert_eq!(end.correct(destroyed).reason, "Destroyed");
    }

    #[test]
    fn exited_qemu_is_shut_off_although_libvirt_still_reports_the_domain() {
        let mut end = EndReason::default();
        let stale = DomainSnapshot {
            status: LifeCycle::Shutdown,
            reason: reason::UNKNOWN,
            spec: Some(Arc::default()),
        };
        end.observe(&VmEvent::PowerOffRequested);
        assert_eq!(end.correct(stale.clone()).status, stale.status);
        for event in [VmEvent::QemuExited, VmEvent::BackupEnded, VmEvent::Metadata] {
            end.observe(&event);
            let corrected = end.correct(stale.clone());
            assert_eq!(corrected.status, LifeCycle::Shutoff, "{event:?}");
            assert_eq!(corrected.reason, "Shutdown", "{event:?}");
        }
        for start in [
            VmEvent::StartingUp,
            lifecycle(LifecycleEvent::Started, Detail::Booted),
        ] {
            end.observe(&VmEvent::QemuExited);
            end.observe(&start);
            assert_eq!(end.correct(stale.clone()).status, stale.status, "{start:?}");
        }
    }

    #[test]
    fn killed_qemu_is_destroyed_whatever_libvirt_takes_its_end_for() {
        for detail in [Detail::Crashed, Detail::Failed, Detail::Destroyed] {
            let stopped = lifecycle(LifecycleEvent::Stopped, detail);
            assert_eq!(reason_after(&[VmEvent::Destroying, stopped]), "Destroyed");
        }
        let mut end = EndReason::default();
        end.observe(&VmEvent::Destroying);
        for (libvirts, expected) in [
            (reason::UNKNOWN, "Destroyed"),
            (reason::CRASHED, "Destroyed"),
            (reason::SHUTDOWN, "Shutdown"),
        ] {
            let shut_off = DomainSnapshot {
                status: LifeCycle::Shutoff,
                reason: libvirts,
                spec: None,
            };
            assert_eq!(end.correct(shut_off).reason, expected, "{libvirts}");
        }
    }

    #[test]
    fn libvirts_stop_reason_takes_precedence() {
        let stopped = lifecycle(LifecycleEvent::Stopped, Detail::Shutdown);
        assert_eq!(reason_after(&[VmEvent::Destroying]), "Destroyed");
        assert_eq!(reason_after(&[VmEvent::Destroying, stopped]), "Shutdown");
    }

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
