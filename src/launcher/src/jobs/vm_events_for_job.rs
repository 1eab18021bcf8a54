//! Events about the VM that the running job has to know of.

use std::sync::atomic::{AtomicBool, Ordering};

use libvirt::{Detail, Event, LifecycleEvent};
use tokio::sync::Notify;

use crate::vm_events::VmEvent;

/// The events that the running job has not looked at yet.
#[derive(Debug, Default)]
pub struct VmEventsForJob {
    changed: Notify,
    qemu_ended: AtomicBool,
    handed_over: AtomicBool,
}

impl VmEventsForJob {
    /// Takes note of an event about the VM.
    pub fn observe(&self, event: &VmEvent) {
        if let VmEvent::Libvirt(Event::Lifecycle { event, detail, .. }) = event {
            self.observe_handover(*event, *detail);
        }
        match event {
            VmEvent::QemuEnded => self.qemu_ended.store(true, Ordering::Relaxed),
            VmEvent::Libvirt(Event::Lifecycle {
                event: LifecycleEvent::Started,
                ..
            }) => return self.qemu_ended.store(false, Ordering::Relaxed),
            VmEvent::Libvirt(Event::JobCompleted { .. }) => {}
            _ => return,
        }
        self.changed.notify_one();
    }

    /// A migration begins: events of an earlier one are forgotten.
    pub(super) fn begin_migration(&self) {
        self.handed_over.store(false, Ordering::Relaxed);
    }

    fn observe_handover(&self, event: LifecycleEvent, detail: Detail) {
        match (event, detail) {
            (LifecycleEvent::Suspended, Detail::Migrated) => {
                self.handed_over.store(true, Ordering::Relaxed);
            }
            (LifecycleEvent::Started | LifecycleEvent::Resumed, _) => {
                self.handed_over.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// The guest runs here, and the event that says so may be lost.
    pub(crate) fn observe_running_guest(&self) {
        self.handed_over.store(false, Ordering::Relaxed);
    }

    /// The guest is stopped for a migration: by libvirt for the switch to the target, or by the launcher.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Resolves when there may be news about the job.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// QEMU's process has ended, whatever libvirt says.
    pub(super) fn has_qemu_ended(&self) -> bool {
        self.qemu_ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_is_handed_over_until_it_runs_again() {
        let events = VmEventsForJob::default();
        let observe = |event, detail| {
            events.observe(&VmEvent::Libvirt(Event::Lifecycle {
                domain: "default_vm1".into(),
                event,
                detail,
            }));
            events.is_handed_over()
        };
        assert!(!observe(LifecycleEvent::Suspended, Detail::Paused));
        assert!(observe(LifecycleEvent::Suspended, Detail::Migrated));
        assert!(observe(LifecycleEvent::Stopped, Detail::Crashed));
        assert!(!observe(LifecycleEvent::Resumed, Detail::Migrated));
        assert!(observe(LifecycleEvent::Suspended, Detail::Migrated));
        events.begin_migration();
        assert!(!events.is_handed_over(), "that was another migration");
    }
}
