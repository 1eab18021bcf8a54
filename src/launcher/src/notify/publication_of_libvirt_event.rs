//! The notifications of a domain's state that follow from events. Pure.

use libvirt::{Detail, Event, JobOperation, LifecycleEvent};

/// The watch event types of Kubernetes that a launcher sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// The domain is new to virt-handler.
    Added,
    /// The domain has changed or ended.
    Modified,
}

impl EventType {
    /// The value in the notification.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
        }
    }
}

/// A notification to send. Its content is the domain at the time of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Publication {
    /// The type of the event.
    pub event_type: EventType,
    /// Whether the notification contains KubeVirt's metadata (UID, grace period...).
    pub with_metadata: bool,
    /// Whether the notification reports the moment before the domain's vCPUs run, which may be over already.
    pub starting_up: bool,
}

impl Publication {
    /// A notification of type `MODIFIED` with KubeVirt's metadata.
    pub(crate) const MODIFIED: Publication = Publication {
        event_type: EventType::Modified,
        with_metadata: true,
        starting_up: false,
    };
}

/// The notification of an event of a domain that is announced; `None` if the event needs none.
pub(super) fn publication(event: &Event) -> Option<Publication> {
    match event {
        Event::Lifecycle { event, detail, .. } => Some(lifecycle_publication(*event, *detail)),
        Event::AgentLifecycle { .. }
        | Event::DeviceAdded { .. }
        | Event::DeviceRemoved { .. }
        | Event::MemoryDeviceSize { .. } => Some(Publication::MODIFIED),
        // The end of a backup is published together with its record.
        Event::JobCompleted { params, .. } => (JobOperation::of_params(params)
            != JobOperation::Backup)
            .then_some(Publication::MODIFIED),
        _ => None,
    }
}

fn lifecycle_publication(event: LifecycleEvent, detail: Detail) -> Publication {
    match (event, detail) {
        (LifecycleEvent::Defined, Detail::Added) => Publication {
            event_type: EventType::Added,
            with_metadata: false,
            ..Publication::MODIFIED
        },
        (LifecycleEvent::Started, Detail::Migrated) => Publication {
            event_type: EventType::Added,
            ..Publication::MODIFIED
        },
        _ => Publication::MODIFIED,
    }
}
