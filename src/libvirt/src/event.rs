//! What libvirt tells by itself: domain events and the end of a connection.

use std::fmt;

/// Receives every event of a subscription: on the event loop's own thread, but the connection's end
/// on whichever thread comes upon it, inside its call.
///
/// It must return at once (hand the event to a channel) and must not call libvirt: the loop
/// that would carry the answer is the one it is running on, and locks of the connection are held.
pub type EventSink = Box<dyn Fn(Event) + Send + Sync>;

/// One thing that happened. `domain` is always the domain's name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The domain was defined, started, stopped...
    Lifecycle {
        /// The domain's name.
        domain: String,
        /// What happened.
        event: LifecycleEvent,
        /// How it came about.
        detail: Detail,
    },
    /// The guest rebooted. libvirt sends two per reboot.
    Reboot {
        /// The domain's name.
        domain: String,
    },
    /// The guest agent connected or went away.
    AgentLifecycle {
        /// The domain's name.
        domain: String,
        /// Whether an agent is there now.
        connected: bool,
    },
    /// The domain's metadata was written.
    Metadata {
        /// The domain's name.
        domain: String,
        /// The namespace of the element that changed; none for title and description.
        uri: Option<String>,
    },
    /// A device was plugged in.
    DeviceAdded {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest let go of a device.
    DeviceRemoved {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest refused to let go of a device.
    DeviceRemovalFailed {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
    },
    /// The guest opened or closed a drive's tray.
    TrayChange {
        /// The domain's name.
        domain: String,
        /// The drive's alias.
        alias: String,
        /// Whether the tray is open now.
        open: bool,
    },
    /// A migration, backup or dump ended.
    JobCompleted {
        /// The domain's name.
        domain: String,
        /// The job's figures, under libvirt's names.
        figures: Vec<(String, Figure)>,
    },
    /// The host found broken memory under the guest.
    MemoryFailure {
        /// The domain's name.
        domain: String,
        /// Whether the guest (and not the hypervisor) was hit.
        in_guest: bool,
        /// What the hypervisor did about it.
        action: MemoryFailureAction,
    },
    /// A disk reported an error to the guest.
    IoError {
        /// The domain's name.
        domain: String,
        /// The disk's alias.
        alias: String,
        /// The source's path.
        path: String,
        /// libvirt's word for it, e.g. `enospc`.
        reason: String,
    },
    /// A memory device was resized by the guest.
    MemoryDeviceSize {
        /// The domain's name.
        domain: String,
        /// The device's alias.
        alias: String,
        /// The new size, in KiB.
        kib: u64,
    },
    /// The connection to the daemon is over; no event follows on it.
    ConnectionClosed {
        /// Why.
        reason: CloseReason,
    },
}

impl Event {
    /// The domain the event is about; none when it is about the connection.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Event::Lifecycle { domain, .. }
            | Event::Reboot { domain }
            | Event::AgentLifecycle { domain, .. }
            | Event::Metadata { domain, .. }
            | Event::DeviceAdded { domain, .. }
            | Event::DeviceRemoved { domain, .. }
            | Event::DeviceRemovalFailed { domain, .. }
            | Event::TrayChange { domain, .. }
            | Event::JobCompleted { domain, .. }
            | Event::MemoryFailure { domain, .. }
            | Event::IoError { domain, .. }
            | Event::MemoryDeviceSize { domain, .. } => Some(domain),
            Event::ConnectionClosed { .. } => None,
        }
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
    /// A newer libvirt's event.
    Other(i32),
}

/// How a lifecycle event came about: libvirt's per-event details in one list.
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
    /// The guest asked for it.
    Guest,
    /// The host asked for it.
    Host,
    // PmSuspended
    Memory,
    Disk,
    // Crashed
    Panicked,
    Crashloaded,
    /// A newer libvirt's detail.
    Other(i32),
}

// Each list is in the order of libvirt's enum: the index is the number on the wire.
const EVENTS: [LifecycleEvent; 9] = [
    LifecycleEvent::Defined,
    LifecycleEvent::Undefined,
    LifecycleEvent::Started,
    LifecycleEvent::Suspended,
    LifecycleEvent::Resumed,
    LifecycleEvent::Stopped,
    LifecycleEvent::Shutdown,
    LifecycleEvent::PmSuspended,
    LifecycleEvent::Crashed,
];
const DEFINED: [Detail; 4] = [
    Detail::Added,
    Detail::Updated,
    Detail::Renamed,
    Detail::FromSnapshot,
];
const UNDEFINED: [Detail; 2] = [Detail::Removed, Detail::Renamed];
const STARTED: [Detail; 5] = [
    Detail::Booted,
    Detail::Migrated,
    Detail::Restored,
    Detail::FromSnapshot,
    Detail::Wakeup,
];
const SUSPENDED: [Detail; 9] = [
    Detail::Paused,
    Detail::Migrated,
    Detail::IoError,
    Detail::Watchdog,
    Detail::Restored,
    Detail::FromSnapshot,
    Detail::ApiError,
    Detail::Postcopy,
    Detail::PostcopyFailed,
];
const RESUMED: [Detail; 5] = [
    Detail::Unpaused,
    Detail::Migrated,
    Detail::FromSnapshot,
    Detail::Postcopy,
    Detail::PostcopyFailed,
];
const STOPPED: [Detail; 7] = [
    Detail::Shutdown,
    Detail::Destroyed,
    Detail::Crashed,
    Detail::Migrated,
    Detail::Saved,
    Detail::Failed,
    Detail::FromSnapshot,
];
const SHUTDOWN: [Detail; 3] = [Detail::Finished, Detail::Guest, Detail::Host];
const PM_SUSPENDED: [Detail; 2] = [Detail::Memory, Detail::Disk];
const CRASHED: [Detail; 2] = [Detail::Panicked, Detail::Crashloaded];

impl LifecycleEvent {
    pub(crate) fn decode(raw: i32) -> Self {
        at(&EVENTS, raw).unwrap_or(LifecycleEvent::Other(raw))
    }

    fn details(self) -> &'static [Detail] {
        match self {
            LifecycleEvent::Defined => &DEFINED,
            LifecycleEvent::Undefined => &UNDEFINED,
            LifecycleEvent::Started => &STARTED,
            LifecycleEvent::Suspended => &SUSPENDED,
            LifecycleEvent::Resumed => &RESUMED,
            LifecycleEvent::Stopped => &STOPPED,
            LifecycleEvent::Shutdown => &SHUTDOWN,
            LifecycleEvent::PmSuspended => &PM_SUSPENDED,
            LifecycleEvent::Crashed => &CRASHED,
            LifecycleEvent::Other(_) => &[],
        }
    }
}

impl Detail {
    pub(crate) fn decode(event: LifecycleEvent, raw: i32) -> Self {
        at(event.details(), raw).unwrap_or(Detail::Other(raw))
    }
}

fn at<T: Copy>(list: &[T], raw: i32) -> Option<T> {
    list.get(usize::try_from(raw).ok()?).copied()
}

/// Why a connection ended (`virConnectCloseReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// An I/O error.
    Error,
    /// The daemon went away.
    Eof,
    /// The daemon did not answer keepalive messages.
    Keepalive,
    /// This side closed it.
    Client,
}

impl CloseReason {
    pub(crate) fn decode(raw: i32) -> Self {
        match raw {
            1 => CloseReason::Eof,
            2 => CloseReason::Keepalive,
            3 => CloseReason::Client,
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

/// What the hypervisor did about broken memory (`virDomainMemoryFailureActionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryFailureAction {
    /// Nothing.
    Ignore,
    /// The guest was told.
    Inject,
    /// The guest could not be told.
    Fatal,
    /// The guest was reset.
    Reset,
    /// A newer libvirt's action.
    Other(i32),
}

impl MemoryFailureAction {
    pub(crate) fn decode(raw: i32) -> Self {
        match raw {
            0 => Self::Ignore,
            1 => Self::Inject,
            2 => Self::Fatal,
            3 => Self::Reset,
            other => Self::Other(other),
        }
    }
}

/// One value of a libvirt typed parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// A signed number, 32 or 64 bits.
    Signed(i64),
    /// An unsigned number, 32 or 64 bits.
    Unsigned(u64),
    /// A floating point number.
    Float(f64),
    /// A truth.
    Bool(bool),
    /// A text.
    Text(String),
}

impl Figure {
    /// The value as an unsigned number, when it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Figure::Unsigned(value) => Some(value),
            Figure::Signed(value) => u64::try_from(value).ok(),
            Figure::Float(_) | Figure::Bool(_) | Figure::Text(_) => None,
        }
    }

    /// The value as a signed number, when it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Figure::Signed(value) => Some(value),
            Figure::Unsigned(value) => i64::try_from(value).ok(),
            Figure::Float(_) | Figure::Bool(_) | Figure::Text(_) => None,
        }
    }

    /// The value as a text, when it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Figure::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Keeps events coming; dropping it stops them.
///
/// An event that is already being delivered may still arrive while it is dropped.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Subscription {
    pub(crate) fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Subscription {
            end: Some(Box::new(end)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
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
    fn a_detail_depends_on_its_event() {
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
