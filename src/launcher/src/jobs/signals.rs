//! What the observer hears that a running job should look at.

use std::sync::atomic::{AtomicBool, Ordering};

use libvirt::{Event, LifecycleEvent};
use tokio::sync::Notify;

use crate::events::VmEvent;

/// Signals to the running job.
#[derive(Debug, Default)]
pub struct JobSignals {
    changed: Notify,
    qemu_ended: AtomicBool,
}

impl JobSignals {
    /// Takes note of an event about the VM.
    pub fn observe(&self, event: &VmEvent) {
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

    /// Resolves when there may be news about the job.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// QEMU's process has ended, whatever libvirt says.
    pub(super) fn has_qemu_ended(&self) -> bool {
        self.qemu_ended.load(Ordering::Relaxed)
    }
}
