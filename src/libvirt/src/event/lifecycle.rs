//! Lifecycle events and their details, decoded from libvirt's numbers.

use virt_sys as sys;

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
