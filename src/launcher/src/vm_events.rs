//! Events of the VM, from libvirt and from the launcher's own tasks. The observer receives them.

use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libvirt::{Event, LifecycleEvent};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// An event of the VM, of which virt-handler may have to be notified.
#[derive(Debug, Clone, PartialEq)]
pub enum VmEvent {
    /// An event from libvirt.
    Libvirt(Event),
    /// KubeVirt's metadata changed.
    Metadata,
    /// A backup has ended; KubeVirt's metadata contain its result.
    BackupEnded,
    /// The guest agent reported something new that notifications contain.
    GuestInfo,
    /// The current state of the domain must be published: the connection to libvirt is back and events may have been
    /// lost, or the notification of the start was given up.
    Republish,
    /// The launcher is about to redefine the VM after a migration to this pod; libvirt's next event of a definition is
    /// not published.
    RedefinitionBegins,
    /// The definition announced by [`VmEvent::RedefinitionBegins`] has failed, so libvirt sends no event of it.
    RedefinitionFailed,
    /// QEMU's process has exited, and libvirt has sent no event of that.
    QemuExited,
    /// QEMU has no process, although the domain was on when it was last read: libvirt sends no event when it gives up
    /// a domain that it receives.
    QemuMissing,
    /// A start is under way: the QEMU process exists, its processors do not run yet.
    StartingUp,
    /// A start has failed; libvirt does not always send an event of that.
    StartFailed,
    /// The guest was asked to power off.
    PowerOffRequested,
    /// The launcher is about to end QEMU.
    Destroying,
    /// The launcher is about to end QEMU because the guest has migrated, which libvirt does not know.
    EndingAfterMigration,
}

// The queue of the VM's events that the observer has not handled yet.
//
// A guest can cause events faster than the observer reads the domain: with a panic device, a hundred thousand a second.
// So an event of the guest that waits already is not added again, panics come at most once a second, the end of QEMU
// does not wait behind any of them, and the queue has a maximum length.

/// Maximum number of events that wait. Of more, libvirt's are replaced by a new look at the domain.
const MAX_WAITING: usize = 256;
/// Panics of the guest are passed on at most once in this time.
const PANIC_INTERVAL: Duration = Duration::from_secs(1);

/// Creates a queue.
pub(crate) fn vm_event_queue() -> (VmEventSender, VmEventReceiver) {
    let queue = Arc::new(Queue::default());
    let sender = VmEventSender(Arc::new(OpenQueue(Arc::clone(&queue))));
    (sender, VmEventReceiver(queue))
}

/// Adds events. Never waits.
#[derive(Debug, Clone)]
pub struct VmEventSender(Arc<OpenQueue>);

/// Takes events.
#[derive(Debug)]
pub(crate) struct VmEventReceiver(Arc<Queue>);

/// Closes the queue when the last sender is dropped.
#[derive(Debug)]
struct OpenQueue(Arc<Queue>);

/// The receiver was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing receives the VM's events any more")]
pub struct NoReceiver;

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<WaitingEvents>,
    changed: Notify,
}

impl VmEventSender {
    /// Adds an event, unless the rules of the queue drop it.
    ///
    /// # Errors
    /// [`NoReceiver`].
    pub fn send(&self, event: VmEvent) -> Result<(), NoReceiver> {
        let queue = &self.0.0;
        let mut waiting = queue.lock();
        if waiting.has_no_receiver {
            return Err(NoReceiver);
        }
        waiting.push(event, Instant::now());
        drop(waiting);
        queue.changed.notify_one();
        Ok(())
    }
}

impl VmEventReceiver {
    /// Waits for the next event. `None` when all senders are gone. Can be cancelled.
    pub(crate) async fn recv(&mut self) -> Option<VmEvent> {
        loop {
            let due = {
                let mut waiting = self.0.lock();
                if let Some(event) = waiting.pop(Instant::now()) {
                    return Some(event);
                }
                if waiting.has_no_sender {
                    return None;
                }
                waiting.panic.as_ref().map(|_| waiting.panic_due())
            };
            tokio::select! {
                () = self.0.changed.notified() => {}
                () = async { sleep_until(due.unwrap_or_else(Instant::now)).await }, if due.is_some() => {}
            }
        }
    }

    /// The next event, if one waits.
    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Option<VmEvent> {
        self.0.lock().pop(Instant::now())
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, WaitingEvents> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.0.lock().has_no_sender = true;
        self.0.changed.notify_one();
    }
}

impl Drop for VmEventReceiver {
    fn drop(&mut self) {
        self.0.lock().has_no_receiver = true;
    }
}

/// The events that wait, in order. Pure.
#[derive(Debug, Default)]
struct WaitingEvents {
    events: VecDeque<VmEvent>,
    /// The last panic, which waits until [`WaitingEvents::panic_due`].
    panic: Option<VmEvent>,
    last_panic: Option<Instant>,
    has_no_sender: bool,
    has_no_receiver: bool,
}

impl WaitingEvents {
    fn push(&mut self, event: VmEvent, now: Instant) {
        if is_end(&event) {
            // Nothing that the guest did before matters any more, but the first panic may be why it ended.
            self.panic = None;
            let mut panics = 0;
            self.events.retain(|event| {
                panics += usize::from(is_panic(event));
                !is_of_guest(event) || (is_panic(event) && panics == 1)
            });
        } else if is_panic(&event)
            && self
                .last_panic
                .is_some_and(|last| now < last + PANIC_INTERVAL)
        {
            self.panic = Some(event);
            return;
        } else if is_of_guest(&event) && self.waits_already(&event) {
            return;
        }
        if is_panic(&event) {
            self.last_panic = Some(now);
            self.panic = None;
        }
        self.events.push_back(event);
        if self.events.len() > MAX_WAITING {
            self.events.retain(|event| {
                !matches!(event, VmEvent::Libvirt(_) | VmEvent::Republish) || is_end(event)
            });
            self.events.push_back(VmEvent::Republish);
            tracing::warn!("too many events of the VM wait: it is looked at again instead");
        }
    }

    fn pop(&mut self, now: Instant) -> Option<VmEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.panic.is_some() && now >= self.panic_due() {
            self.last_panic = Some(now);
            return self.panic.take();
        }
        None
    }

    /// When a panic may be passed on.
    fn panic_due(&self) -> Instant {
        self.last_panic
            .map_or_else(Instant::now, |last| last + PANIC_INTERVAL)
    }

    /// Whether the last waiting event of this kind is equal.
    fn waits_already(&self, event: &VmEvent) -> bool {
        let mut newest_first = self.events.iter().rev();
        newest_first.find(|waiting| is_of_kind(waiting, event)) == Some(event)
    }
}

fn is_of_kind(one: &VmEvent, other: &VmEvent) -> bool {
    match (one, other) {
        (VmEvent::Libvirt(one), VmEvent::Libvirt(other)) => {
            discriminant(one) == discriminant(other)
        }
        _ => discriminant(one) == discriminant(other),
    }
}

fn is_panic(event: &VmEvent) -> bool {
    matches!(
        event,
        VmEvent::Libvirt(Event::Lifecycle {
            event: LifecycleEvent::Crashed,
            ..
        })
    )
}

/// Whether the guest can cause the event as often as it likes.
fn is_of_guest(event: &VmEvent) -> bool {
    match event {
        VmEvent::Libvirt(
            Event::Reboot { .. }
            | Event::AgentLifecycle { .. }
            | Event::DeviceRemovalFailed { .. }
            | Event::IoError { .. }
            | Event::Watchdog { .. }
            | Event::MemoryDeviceSize { .. },
        )
        | VmEvent::GuestInfo => true,
        event => is_panic(event),
    }
}

fn is_end(event: &VmEvent) -> bool {
    matches!(
        event,
        VmEvent::QemuExited
            | VmEvent::Libvirt(Event::Lifecycle {
                event: LifecycleEvent::Stopped,
                ..
            })
    )
}

#[cfg(test)]
mod tests {
    use libvirt::{Detail, WatchdogAction};

    use super::*;

    fn lifecycle(event: LifecycleEvent, detail: Detail) -> VmEvent {
        VmEvent::Libvirt(Event::Lifecycle {
            domain: "vm".into(),
            event,
            detail,
        })
    }

    fn panic() -> VmEvent {
        lifecycle(LifecycleEvent::Crashed, Detail::Panicked)
    }

    fn agent(connected: bool) -> VmEvent {
        VmEvent::Libvirt(Event::AgentLifecycle {
            domain: "vm".into(),
            connected,
        })
    }

    fn watchdog() -> VmEvent {
        VmEvent::Libvirt(Event::Watchdog {
            domain: "vm".into(),
            action: WatchdogAction::None,
        })
    }

    fn queue_of(events: impl IntoIterator<Item = VmEvent>) -> WaitingEvents {
        let mut waiting = WaitingEvents::default();
        let now = Instant::now();
        events
            .into_iter()
            .for_each(|event| waiting.push(event, now));
        waiting
    }

    #[tokio::test]
    async fn event_of_the_guest_that_waits_is_not_added_again() {
        let waiting = queue_of((0..100_000).map(|_| watchdog()));
        assert_eq!(waiting.events, [watchdog()]);
        // Others keep their order and number, and so does what the guest changes.
        let others = [
            agent(true),
            watchdog(),
            VmEvent::Metadata,
            agent(false),
            VmEvent::Metadata,
            agent(true),
        ];
        assert_eq!(queue_of(others.clone()).events, others);
    }

    #[tokio::test]
    async fn panics_are_passed_on_once_a_second() {
        let mut waiting = queue_of((0..100_000).map(|_| panic()));
        let begin = Instant::now();
        assert_eq!(waiting.pop(begin), Some(panic()));
        waiting.push(panic(), begin);
        assert_eq!(waiting.pop(begin), None);
        let later = begin + PANIC_INTERVAL;
        assert_eq!(waiting.pop(later), Some(panic()));
        assert_eq!(waiting.pop(later + PANIC_INTERVAL), None);
    }

    #[tokio::test]
    async fn end_of_qemu_waits_behind_nothing_that_the_guest_does() {
        for end in [
            VmEvent::QemuExited,
            lifecycle(LifecycleEvent::Stopped, Detail::Destroyed),
        ] {
            let mut events = vec![VmEvent::Destroying, panic(), panic()];
            events.extend((0..50).flat_map(|_| [agent(true), watchdog(), agent(false)]));
            events.push(end.clone());
            assert_eq!(queue_of(events).events, [VmEvent::Destroying, panic(), end]);
        }
    }

    #[tokio::test]
    async fn queue_has_a_maximum_length() {
        let suspended = |_| lifecycle(LifecycleEvent::Suspended, Detail::Paused);
        let waiting = queue_of((0..MAX_WAITING + 1).map(suspended));
        assert_eq!(waiting.events, [VmEvent::Republish]);
    }

    #[tokio::test]
    async fn receiver_waits_for_events_and_for_the_end_of_all_senders() {
        let (sender, mut receiver) = vm_event_queue();
        let other = sender.clone();
        let receiving = tokio::spawn(async move { (receiver.recv().await, receiver.recv().await) });
        tokio::task::yield_now().await;
        assert_eq!(sender.send(VmEvent::Metadata), Ok(()));
        drop(sender);
        drop(other);
        assert!(matches!(
            receiving.await,
            Ok((Some(VmEvent::Metadata), None))
        ));
        let (sender, receiver) = vm_event_queue();
        drop(receiver);
        assert_eq!(sender.send(VmEvent::Metadata), Err(NoReceiver));
    }
}
