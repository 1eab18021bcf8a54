//! Lifecycle events and their details, decoded from libvirt's numbers.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_depends_on_its_event() {
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
