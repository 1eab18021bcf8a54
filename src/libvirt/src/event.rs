//! Events that libvirt sends: those of domains, and the end of a connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{fmt, mem};

use virt_sys as sys;

use crate::typed_params::ParamValue;

/// An event. `domain` is always the domain's name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The domain was defined, started, stopped, and so on.
    Lifecycle {
        /// The domain's name.
        domain: String,
        /// What happened.
        event: LifecycleEvent,
        /// The cause.
        detail: Detail,
    },
    /// The guest rebooted. libvirt sends two events per reboot.
    Reboot {
        /// The domain's name.
        domain: String,
    },
    /// The guest agent connected or disconnected.
    AgentLifecycle {
        /// The domain's name.
        domain: String,
        /// Whether an agent is connected now.
        connected: bool,
    },
    /// A device was attached.
    DeviceAdded {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest released a device, which is detached now.
    DeviceRemoved {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest refused to release a device.
    DeviceRemovalFailed {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// A migration, backup or dump ended.
    JobCompleted {
        /// The domain's name.
        domain: String,
        /// The job's typed parameters, under libvirt's names.
        params: Vec<(String, ParamValue)>,
    },
    /// A migration began another pass over the guest's memory.
    MigrationIteration {
        /// The domain's name.
        domain: String,
        /// The number of the pass, from 1.
        iteration: i32,
    },
    /// An error of a disk.
    IoError {
        /// The domain's name.
        domain: String,
        /// Whether QEMU pauses the guest. Otherwise QEMU reports the error to the guest, or ignores it.
        pauses_guest: bool,
        /// The disk's alias.
        alias: String,
        /// The source's path.
        path: String,
        /// libvirt's name of the error, e.g. `enospc`.
        reason: String,
    },
    /// The guest did not reset its watchdog in time.
    Watchdog {
        /// The domain's name.
        domain: String,
        /// What QEMU does about it.
        action: WatchdogAction,
    },
    /// The guest resized a memory device.
    MemoryDeviceSize {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
        /// The new size, in KiB.
        kib: u64,
    },
    /// The connection to the daemon has ended; no further event arrives on it.
    ConnectionClosed {
        /// Why the connection ended.
        reason: CloseReason,
    },
}

impl Event {
    /// The name of the event's domain; `None` for an event of the connection.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Event::Lifecycle { domain, .. }
            | Event::Reboot { domain }
            | Event::AgentLifecycle { domain, .. }
            | Event::DeviceAdded { domain, .. }
            | Event::DeviceRemoved { domain, .. }
            | Event::DeviceRemovalFailed { domain, .. }
            | Event::JobCompleted { domain, .. }
            | Event::MigrationIteration { domain, .. }
            | Event::IoError { domain, .. }
            | Event::Watchdog { domain, .. }
            | Event::MemoryDeviceSize { domain, .. } => Some(domain),
            Event::ConnectionClosed { .. } => None,
        }
    }
}

/// What QEMU does when the guest's watchdog expires (`virDomainEventWatchdogAction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchdogAction {
    /// Nothing.
    None,
    /// QEMU pauses the guest.
    Pause,
    /// QEMU resets the guest.
    Reset,
    /// QEMU ends without a shutdown of the guest.
    PowerOff,
    /// QEMU asks the guest to shut down.
    Shutdown,
    /// QEMU prints a message.
    Debug,
    /// QEMU sends the guest a non-maskable interrupt.
    InjectNmi,
    /// An action of a newer libvirt.
    Other(i32),
}

impl WatchdogAction {
    /// The action for libvirt's number.
    pub(crate) fn decode(raw: i32) -> WatchdogAction {
        match raw.cast_unsigned() {
            sys::VIR_DOMAIN_EVENT_WATCHDOG_NONE => WatchdogAction::None,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_PAUSE => WatchdogAction::Pause,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_RESET => WatchdogAction::Reset,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_POWEROFF => WatchdogAction::PowerOff,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_SHUTDOWN => WatchdogAction::Shutdown,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_DEBUG => WatchdogAction::Debug,
            sys::VIR_DOMAIN_EVENT_WATCHDOG_INJECTNMI => WatchdogAction::InjectNmi,
            _ => WatchdogAction::Other(raw),
        }
    }
}

/// Why a connection ended (`virConnectCloseReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// An I/O error.
    Error,
    /// The daemon closed the connection or ended.
    Eof,
    /// The daemon did not answer keepalive messages.
    Keepalive,
    /// This process closed the connection.
    Client,
}

impl CloseReason {
    /// The reason for libvirt's number.
    pub(crate) fn decode(raw: i32) -> Self {
        match raw.cast_unsigned() {
            sys::VIR_CONNECT_CLOSE_REASON_EOF => CloseReason::Eof,
            sys::VIR_CONNECT_CLOSE_REASON_KEEPALIVE => CloseReason::Keepalive,
            sys::VIR_CONNECT_CLOSE_REASON_CLIENT => CloseReason::Client,
            _ => CloseReason::Error,
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloseReason::Error => "I/O error",
            CloseReason::Eof => "the daemon closed it or ended",
            CloseReason::Keepalive => "the daemon stopped answering",
            CloseReason::Client => "closed by this side",
        })
    }
}

/// `virDomainEventType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are libvirt's and say it all")]
pub enum LifecycleEvent {
    Defined,
    Undefined,
    Started,
    Suspended,
    Resumed,
    Stopped,
    Shutdown,
    PmSuspended,
    Crashed,
    /// An event of a newer libvirt.
    Other(i32),
}

/// The cause of a lifecycle event: the details of all events in one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are libvirt's and say it all")]
pub enum Detail {
    // Defined and Undefined
    Added,
    Updated,
    Renamed,
    Removed,
    // Started, Suspended, Resumed
    Booted,
    Migrated,
    Restored,
    FromSnapshot,
    Wakeup,
    Paused,
    IoError,
    Watchdog,
    ApiError,
    Postcopy,
    PostcopyFailed,
    Unpaused,
    // Stopped
    Shutdown,
    Destroyed,
    Crashed,
    Saved,
    Failed,
    // Shutdown
    Finished,
    /// The guest requested it.
    Guest,
    /// The host requested it.
    Host,
    // PmSuspended
    Memory,
    Disk,
    // Crashed
    Panicked,
    Crashloaded,
    /// A detail of a newer libvirt.
    Other(i32),
}

impl LifecycleEvent {
    /// The event for libvirt's number.
    pub(crate) fn decode(raw: i32) -> Self {
        match raw.cast_unsigned() {
            sys::VIR_DOMAIN_EVENT_DEFINED => LifecycleEvent::Defined,
            sys::VIR_DOMAIN_EVENT_UNDEFINED => LifecycleEvent::Undefined,
            sys::VIR_DOMAIN_EVENT_STARTED => LifecycleEvent::Started,
            sys::VIR_DOMAIN_EVENT_SUSPENDED => LifecycleEvent::Suspended,
            sys::VIR_DOMAIN_EVENT_RESUMED => LifecycleEvent::Resumed,
            sys::VIR_DOMAIN_EVENT_STOPPED => LifecycleEvent::Stopped,
            sys::VIR_DOMAIN_EVENT_SHUTDOWN => LifecycleEvent::Shutdown,
            sys::VIR_DOMAIN_EVENT_PMSUSPENDED => LifecycleEvent::PmSuspended,
            sys::VIR_DOMAIN_EVENT_CRASHED => LifecycleEvent::Crashed,
            _ => LifecycleEvent::Other(raw),
        }
    }
}

impl Detail {
    /// The detail for libvirt's number. Each event has its own numbers.
    pub(crate) fn decode(event: LifecycleEvent, raw: i32) -> Self {
        let number = raw.cast_unsigned();
        let detail = match event {
            LifecycleEvent::Defined => defined_detail(number),
            LifecycleEvent::Undefined => undefined_detail(number),
            LifecycleEvent::Started => started_detail(number),
            LifecycleEvent::Suspended => suspended_detail(number),
            LifecycleEvent::Resumed => resumed_detail(number),
            LifecycleEvent::Stopped => stopped_detail(number),
            LifecycleEvent::Shutdown => shutdown_detail(number),
            LifecycleEvent::PmSuspended => pm_suspended_detail(number),
            LifecycleEvent::Crashed => crashed_detail(number),
            LifecycleEvent::Other(_) => None,
        };
        detail.unwrap_or(Detail::Other(raw))
    }
}

fn defined_detail(number: sys::virDomainEventDefinedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_DEFINED_ADDED => Detail::Added,
        sys::VIR_DOMAIN_EVENT_DEFINED_UPDATED => Detail::Updated,
        sys::VIR_DOMAIN_EVENT_DEFINED_RENAMED => Detail::Renamed,
        sys::VIR_DOMAIN_EVENT_DEFINED_FROM_SNAPSHOT => Detail::FromSnapshot,
        _ => return None,
    })
}

fn undefined_detail(number: sys::virDomainEventUndefinedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_UNDEFINED_REMOVED => Detail::Removed,
        sys::VIR_DOMAIN_EVENT_UNDEFINED_RENAMED => Detail::Renamed,
        _ => return None,
    })
}

fn started_detail(number: sys::virDomainEventStartedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_STARTED_BOOTED => Detail::Booted,
        sys::VIR_DOMAIN_EVENT_STARTED_MIGRATED => Detail::Migrated,
        sys::VIR_DOMAIN_EVENT_STARTED_RESTORED => Detail::Restored,
        sys::VIR_DOMAIN_EVENT_STARTED_FROM_SNAPSHOT => Detail::FromSnapshot,
        sys::VIR_DOMAIN_EVENT_STARTED_WAKEUP => Detail::Wakeup,
        _ => return None,
    })
}

fn suspended_detail(number: sys::virDomainEventSuspendedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_SUSPENDED_PAUSED => Detail::Paused,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_MIGRATED => Detail::Migrated,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_IOERROR => Detail::IoError,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_WATCHDOG => Detail::Watchdog,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_RESTORED => Detail::Restored,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_FROM_SNAPSHOT => Detail::FromSnapshot,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_API_ERROR => Detail::ApiError,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_POSTCOPY => Detail::Postcopy,
        sys::VIR_DOMAIN_EVENT_SUSPENDED_POSTCOPY_FAILED => Detail::PostcopyFailed,
        _ => return None,
    })
}

fn resumed_detail(number: sys::virDomainEventResumedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_RESUMED_UNPAUSED => Detail::Unpaused,
        sys::VIR_DOMAIN_EVENT_RESUMED_MIGRATED => Detail::Migrated,
        sys::VIR_DOMAIN_EVENT_RESUMED_FROM_SNAPSHOT => Detail::FromSnapshot,
        sys::VIR_DOMAIN_EVENT_RESUMED_POSTCOPY => Detail::Postcopy,
        sys::VIR_DOMAIN_EVENT_RESUMED_POSTCOPY_FAILED => Detail::PostcopyFailed,
        _ => return None,
    })
}

fn stopped_detail(number: sys::virDomainEventStoppedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN => Detail::Shutdown,
        sys::VIR_DOMAIN_EVENT_STOPPED_DESTROYED => Detail::Destroyed,
        sys::VIR_DOMAIN_EVENT_STOPPED_CRASHED => Detail::Crashed,
        sys::VIR_DOMAIN_EVENT_STOPPED_MIGRATED => Detail::Migrated,
        sys::VIR_DOMAIN_EVENT_STOPPED_SAVED => Detail::Saved,
        sys::VIR_DOMAIN_EVENT_STOPPED_FAILED => Detail::Failed,
        sys::VIR_DOMAIN_EVENT_STOPPED_FROM_SNAPSHOT => Detail::FromSnapshot,
        _ => return None,
    })
}

fn shutdown_detail(number: sys::virDomainEventShutdownDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_SHUTDOWN_FINISHED => Detail::Finished,
        sys::VIR_DOMAIN_EVENT_SHUTDOWN_GUEST => Detail::Guest,
        sys::VIR_DOMAIN_EVENT_SHUTDOWN_HOST => Detail::Host,
        _ => return None,
    })
}

fn pm_suspended_detail(number: sys::virDomainEventPMSuspendedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_PMSUSPENDED_MEMORY => Detail::Memory,
        sys::VIR_DOMAIN_EVENT_PMSUSPENDED_DISK => Detail::Disk,
        _ => return None,
    })
}

fn crashed_detail(number: sys::virDomainEventCrashedDetailType) -> Option<Detail> {
    Some(match number {
        sys::VIR_DOMAIN_EVENT_CRASHED_PANICKED => Detail::Panicked,
        sys::VIR_DOMAIN_EVENT_CRASHED_CRASHLOADED => Detail::Crashloaded,
        _ => return None,
    })
}

// The event handlers of one connection.
//
// libvirt accepts each callback only once per connection, so one registration serves all handlers.

/// The handlers of a connection. Handlers whose subscription was dropped are removed.
#[derive(Default)]
pub(crate) struct EventHandlers(Mutex<Vec<Weak<EventHandler>>>);

impl EventHandlers {
    /// Adds a handler. It receives events as long as the result lives.
    pub(crate) fn add(&self, handler: EventHandler) -> Arc<EventHandler> {
        let handler = Arc::new(handler);
        self.lock().push(Arc::downgrade(&handler));
        handler
    }

    /// Calls all handlers, in the order in which they were added. No lock is held during the calls, and a handler that
    /// panics does not keep the event from the next one.
    pub(crate) fn publish(&self, event: &Event) {
        for handler in self.current() {
            catch_panic(|| handler(event.clone()));
        }
    }

    fn current(&self) -> Vec<Arc<EventHandler>> {
        let mut handlers = self.lock();
        handlers.retain(|handler| handler.strong_count() > 0);
        handlers.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<EventHandler>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `run`. A panic in it is logged and does not reach the caller.
pub(crate) fn catch_panic(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        // Dropping the payload could panic again.
        mem::forget(panic);
        let _ = catch_unwind(|| tracing::error!("an event handler panicked; its event is lost"));
    }
}

/// Receives each event of a subscription. The handler runs on the event loop's thread. For the connection's end it may
/// also run on any thread that notices the end, inside that thread's call.
///
/// A handler must return at once (send the event to a channel) and must not call libvirt: the event loop, which
/// delivers responses, is waiting for the handler, and libvirt holds locks of the connection.
pub type EventHandler = Box<dyn Fn(Event) + Send + Sync>;

/// Delivers events to its handler until it is dropped.
///
/// An event whose delivery has begun may still arrive while the subscription is dropped.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    unsubscribe: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Subscription {
    pub(crate) fn new(unsubscribe: impl FnOnce() + Send + Sync + 'static) -> Self {
        Subscription {
            unsubscribe: Some(Box::new(unsubscribe)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(unsubscribe) = self.unsubscribe.take() {
            unsubscribe();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_is_decoded_by_its_event() {
        // Numbers as libvirt sends them.
        let decode = |event, detail| {
            let event = LifecycleEvent::decode(event);
            (event, Detail::decode(event, detail))
        };
        assert_eq!(decode(0, 0), (LifecycleEvent::Defined, Detail::Added));
        assert_eq!(decode(2, 1), (LifecycleEvent::Started, Detail::Migrated));
        assert_eq!(decode(5, 2), (LifecycleEvent::Stopped, Detail::Crashed));
        assert_eq!(decode(6, 2), (LifecycleEvent::Shutdown, Detail::Host));
        assert_eq!(decode(77, 5), (LifecycleEvent::Other(77), Detail::Other(5)));
        assert_eq!(decode(5, -4), (LifecycleEvent::Stopped, Detail::Other(-4)));
    }
}
