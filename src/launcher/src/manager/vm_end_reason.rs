//! Why the VM ended, for when libvirt does not report it: its daemon hangs, or a transient domain is gone with its end.
//! Pure.

use std::sync::Arc;

use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::{Detail, Event, LifecycleEvent};

use crate::libvirt_client::{DomainSnapshot, Presence};
use crate::vm_events::VmEvent;

/// KubeVirt's reason of a `Shutoff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndReason {
    reason: &'static str,
    /// QEMU's process has ended, which libvirt may not have noticed yet.
    has_ended: bool,
}

impl Default for EndReason {
    /// A QEMU process that ends unasked has crashed.
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

    /// Corrects a snapshot: a daemon that was down while the guest powered off reports a crash, one that was down while the
    /// guest migrated does not know that, and a busy one still reports a domain whose process is gone.
    pub(super) fn correct(self, snapshot: DomainSnapshot) -> DomainSnapshot {
        if self.has_ended
            && snapshot.presence() == Presence::On
            && let Some(spec) = &snapshot.spec
        {
            return DomainSnapshot::shut_off(Arc::clone(spec), self.reason);
        }
        let is_wrong = match self.reason {
            reason::SHUTDOWN => snapshot.reason == reason::CRASHED,
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

    /// Takes in an event.
    pub(super) fn observe(&mut self, event: &VmEvent) {
        match event {
            VmEvent::QemuEnded => self.has_ended = true,
            VmEvent::StartingUp => self.has_ended = false,
            VmEvent::Departing => self.reason = reason::MIGRATED,
            VmEvent::Destroying if self.reason != reason::MIGRATED => {
                self.reason = reason::DESTROYED;
            }
            VmEvent::GuestAsked if self.reason == reason::CRASHED => {
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
                if let Some(reason) = of_stop(detail) {
                    self.reason = reason;
                }
            }
            _ => {}
        }
    }
}

fn of_stop(detail: Detail) -> Option<&'static str> {
    match detail {
        Detail::Shutdown => Some(reason::SHUTDOWN),
        Detail::Destroyed => Some(reason::DESTROYED),
        // libvirt's word for a QEMU that was killed.
        Detail::Crashed | Detail::Failed => Some(reason::CRASHED),
        Detail::Migrated => Some(reason::MIGRATED),
        Detail::Saved => Some("Saved"),
        Detail::FromSnapshot => Some("FromSnapshot"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
    fn unrequested_end_is_a_crash() {
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
    fn guest_that_was_asked_to_power_off_has_not_crashed_when_libvirt_missed_its_end() {
        let mut end = EndReason::default();
        let crashed = DomainSnapshot {
            status: LifeCycle::Shutoff,
            reason: reason::CRASHED,
            spec: None,
        };
        assert_eq!(end.correct(crashed.clone()).reason, "Crashed");
        end.observe(&VmEvent::GuestAsked);
        assert_eq!(end.correct(crashed.clone()).reason, "Shutdown");
        // What libvirt saw itself counts.
        end.observe(&lifecycle(LifecycleEvent::Stopped, Detail::Failed));
        assert_eq!(end.correct(crashed).reason, "Crashed");
    }

    #[test]
    fn end_of_a_guest_on_the_target_is_migrated_despite_libvirts_reason() {
        let stopped = lifecycle(LifecycleEvent::Stopped, Detail::Destroyed);
        let mut end = EndReason::default();
        for event in [VmEvent::Departing, VmEvent::Destroying, stopped] {
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
    fn libvirt_that_has_not_noticed_the_end_of_qemu_does_not_bring_the_vm_back() {
        let mut end = EndReason::default();
        let stale = DomainSnapshot {
            status: LifeCycle::Shutdown,
            reason: reason::UNKNOWN,
            spec: Some(Arc::default()),
        };
        end.observe(&VmEvent::GuestAsked);
        assert_eq!(end.correct(stale.clone()).status, stale.status);
        for event in [VmEvent::QemuEnded, VmEvent::BackupEnded, VmEvent::Metadata] {
            end.observe(&event);
            let corrected = end.correct(stale.clone());
            assert_eq!(corrected.status, LifeCycle::Shutoff, "{event:?}");
            assert_eq!(corrected.reason, "Shutdown", "{event:?}");
        }
        for start in [
            VmEvent::StartingUp,
            lifecycle(LifecycleEvent::Started, Detail::Booted),
        ] {
            end.observe(&VmEvent::QemuEnded);
            end.observe(&start);
            assert_eq!(end.correct(stale.clone()).status, stale.status, "{start:?}");
        }
    }

    #[test]
    fn libvirts_stop_reason_takes_precedence() {
        let stopped = lifecycle(LifecycleEvent::Stopped, Detail::Shutdown);
        assert_eq!(reason_after(&[VmEvent::Destroying]), "Destroyed");
        assert_eq!(reason_after(&[VmEvent::Destroying, stopped]), "Shutdown");
    }
}
