//! What the running job learns from the VM's events.

use std::sync::atomic::{AtomicBool, Ordering};

use libvirt::{Detail, Event, LifecycleEvent};
use tokio::sync::Notify;

use crate::vm_events::VmEvent;

/// What the running job learns from the VM's events. The observer writes it, the job reads it.
#[derive(Debug, Default)]
pub struct VmEventsForJob {
    /// Notified after an event that concerns the job.
    changed: Notify,
    /// Whether QEMU's process has exited.
    qemu_exited: AtomicBool,
    /// Whether the guest is stopped for the switch to a migration's target.
    stopped_for_switch: AtomicBool,
}

impl VmEventsForJob {
    /// Updates the state after an event of the VM.
    pub fn observe(&self, event: &VmEvent) {
        if let VmEvent::Libvirt(Event::Lifecycle { event, detail, .. }) = event {
            self.observe_switch(*event, *detail);
        }
        match event {
            VmEvent::QemuExited => self.qemu_exited.store(true, Ordering::Relaxed),
            VmEvent::Libvirt(Event::Lifecycle {
                event: LifecycleEvent::Started,
                ..
            }) => return self.qemu_exited.store(false, Ordering::Relaxed),
            VmEvent::Libvirt(Event::JobCompleted { .. }) => {}
            _ => return,
        }
        self.changed.notify_one();
    }

    /// Forgets the events of an earlier migration, because a new one begins.
    pub(super) fn begin_migration(&self) {
        self.stopped_for_switch.store(false, Ordering::Relaxed);
    }

    fn observe_switch(&self, event: LifecycleEvent, detail: Detail) {
        match (event, detail) {
            (LifecycleEvent::Suspended, Detail::Migrated) => {
                self.stopped_for_switch.store(true, Ordering::Relaxed);
            }
            (LifecycleEvent::Started | LifecycleEvent::Resumed, _) => {
                self.stopped_for_switch.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Records that the guest runs here. Called after a resync, since the event may be lost.
    pub(crate) fn observe_running_guest(&self) {
        self.stopped_for_switch.store(false, Ordering::Relaxed);
    }

    /// Whether the guest is stopped for a migration: by libvirt for the switch to the target, or by the launcher.
    pub(crate) fn is_stopped_for_switch(&self) -> bool {
        self.stopped_for_switch.load(Ordering::Relaxed)
    }

    /// Waits for an event that concerns the job.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether QEMU's process has exited, even if libvirt has not noticed that.
    pub(super) fn has_qemu_exited(&self) -> bool {
        self.qemu_exited.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_is_stopped_for_the_switch_until_it_runs_again() {
        let events = VmEventsForJob::default();
        let observe = |event, detail| {
            events.observe(&VmEvent::Libvirt(Event::Lifecycle {
                domain: "default_vm1".into(),
                event,
                detail,
            }));
            events.is_stopped_for_switch()
        };
        assert!(!observe(LifecycleEvent::Suspended, Detail::Paused));
        assert!(observe(LifecycleEvent::Suspended, Detail::Migrated));
        assert!(observe(LifecycleEvent::Stopped, Detail::Crashed));
        assert!(!observe(LifecycleEvent::Resumed, Detail::Migrated));
        assert!(observe(LifecycleEvent::Suspended, Detail::Migrated));
        events.begin_migration();
        assert!(
            !events.is_stopped_for_switch(),
            "forgotten at the next migration"
        );
    }
}
