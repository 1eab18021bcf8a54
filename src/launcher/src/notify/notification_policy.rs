//! The policy of notifications: which notifications follow from which events. Pure.
//!
//! ```text
//!          metadata (pending)
//!               ┌──┐
//!               │  ▼
//!          [unannounced] ──first event of the domain──▶ [announced] ──▶ one publication per event
//! ```
//!
//! virt-handler learns of a domain through `ADDED` without KubeVirt's metadata, and then through `MODIFIED` with them.
//! libvirt's event of the definition and the launcher's own change of metadata may come in either order; the
//! notifications always have this order.
//!
//! A VM that arrives by a migration is announced by `ADDED` with its metadata, by which virt-handler recognizes the
//! migration, when libvirt has the domain. Three kinds of event are not published during such a migration: events
//! before the VM has arrived (such as that of the agent's channel), the event of its definition after that, and the end
//! of a QEMU in which the guest never ran (libvirt ends it when the migration fails, and the notification that the
//! domain is gone follows).

use libvirt::{Detail, Event, JobOperation, LifecycleEvent};

use crate::vm_events::VmEvent;

/// The policy and its state.
#[derive(Debug, Default)]
pub(crate) struct NotificationPolicy {
    /// Whether virt-handler was notified of the domain.
    announced: bool,
    /// Whether metadata changed before the domain was announced.
    pending_metadata: bool,
    /// Whether the last published state of the domain has a QEMU process.
    published_active: bool,
    /// Whether a start was published, and no lifecycle event has followed yet.
    starting: bool,
    /// Whether a migration to this pod is running, and the guest has not run here.
    incoming: bool,
    /// Whether libvirt has said that the domain is gone, or its events may be lost.
    deleted: bool,
    /// The number of the launcher's own definitions whose events are still expected.
    expected_redefinitions: u32,
}

impl NotificationPolicy {
    /// The notifications that follow from an event, in order.
    pub(crate) fn observe(&mut self, event: &VmEvent) -> Vec<Publication> {
        self.deleted = deletes_domain(event).unwrap_or(self.deleted);
        match event {
            VmEvent::Libvirt(event) => self.observe_event(event),
            VmEvent::Metadata | VmEvent::GuestInfo if self.announced => {
                vec![Publication::MODIFIED]
            }
            VmEvent::BackupEnded if self.announced => vec![Publication {
                event_type: EventType::Added,
                ..Publication::MODIFIED
            }],
            VmEvent::GuestInfo | VmEvent::BackupEnded => Vec::new(),
            VmEvent::Metadata => {
                self.pending_metadata = true;
                Vec::new()
            }
            VmEvent::Republish | VmEvent::QemuExited => {
                // Earlier events are lost, so the next event of a definition is not that of the launcher's.
                self.expected_redefinitions = 0;
                let publication = self.announced.then_some(Publication::MODIFIED);
                publication.into_iter().collect()
            }
            VmEvent::QemuMissing if self.published_active => vec![Publication::MODIFIED],
            VmEvent::QemuMissing => Vec::new(),
            VmEvent::RedefinitionBegins => {
                self.expected_redefinitions += 1;
                Vec::new()
            }
            VmEvent::RedefinitionFailed => {
                self.expected_redefinitions = self.expected_redefinitions.saturating_sub(1);
                Vec::new()
            }
            VmEvent::StartingUp => self.observe_start().into_iter().collect(),
            VmEvent::StartFailed if self.published_active => vec![Publication::MODIFIED],
            VmEvent::StartFailed
            | VmEvent::PowerOffRequested
            | VmEvent::Destroying
            | VmEvent::EndingAfterMigration => Vec::new(),
        }
    }

    /// The notification of a start, which is published once, and only while the VM is off.
    fn observe_start(&mut self) -> Option<Publication> {
        let is_unpublished = self.announced && !self.published_active;
        self.starting |= is_unpublished;
        is_unpublished.then_some(Publication {
            starting_up: true,
            ..Publication::MODIFIED
        })
    }

    /// Whether the event marks a start: at each start libvirt reports that the agent is not connected.
    fn is_start(&self, event: &Event) -> bool {
        let no_agent = matches!(
            event,
            Event::AgentLifecycle {
                connected: false,
                ..
            }
        );
        no_agent && self.announced && (self.starting || !self.published_active)
    }

    /// Whether the event says that the vCPUs run. A start that was not published before is published first.
    fn is_running(event: &Event) -> bool {
        matches!(
            event,
            Event::Lifecycle {
                event: LifecycleEvent::Started | LifecycleEvent::Resumed,
                detail: Detail::Booted | Detail::Unpaused,
                ..
            }
        )
    }

    /// Whether the event is a further step of the launcher's own definition. Until a domain runs, only the launcher
    /// defines it.
    fn is_own_redefinition(&self, event: &Event) -> bool {
        let redefined = matches!(
            event,
            Event::Lifecycle {
                event: LifecycleEvent::Defined,
                detail: Detail::Updated,
                ..
            }
        );
        redefined && !self.published_active
    }

    /// Whether the event is the definition of an incoming domain: libvirt makes it persistent, and the launcher
    /// completes the definition.
    fn is_definition_of_incoming_domain(&mut self, event: &Event) -> bool {
        let Event::Lifecycle { event, detail, .. } = event else {
            return false;
        };
        match (event, detail) {
            (LifecycleEvent::Defined, Detail::Added) => self.incoming,
            (LifecycleEvent::Defined, _) if self.expected_redefinitions > 0 => {
                self.expected_redefinitions -= 1;
                true
            }
            (LifecycleEvent::Defined, _) => false,
            (LifecycleEvent::Started, Detail::Migrated) => {
                self.incoming = true;
                false
            }
            (LifecycleEvent::Started | LifecycleEvent::Resumed, _)
            | (LifecycleEvent::Suspended, Detail::Paused) => {
                self.incoming = false;
                false
            }
            _ => false,
        }
    }

    /// Whether no event follows that says that the domain is gone: it was observed, or may be lost.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether a migration to this pod is running, and the guest has not run here.
    pub(crate) fn is_incoming(&self) -> bool {
        self.incoming
    }

    /// Records whether the domain that was published has a QEMU process.
    pub(crate) fn observe_published(&mut self, is_active: bool) {
        self.published_active = is_active;
    }

    /// Whether the last published domain has a QEMU process.
    pub(crate) fn last_published_active(&self) -> bool {
        self.published_active
    }

    fn observe_event(&mut self, event: &Event) -> Vec<Publication> {
        if self.is_start(event) {
            return self.observe_start().into_iter().collect();
        }
        // Minor events are not published before the domain is announced and its guest runs here.
        let is_minor = match event {
            Event::Lifecycle { event, .. } => *event == LifecycleEvent::Shutdown,
            _ => true,
        };
        let is_early = (!self.announced || self.incoming) && is_minor;
        if is_early
            || self.is_definition_of_incoming_domain(event)
            || self.is_own_redefinition(event)
        {
            return Vec::new();
        }
        let start = match Self::is_running(event) && !self.starting {
            true => self.observe_start(),
            false => None,
        };
        self.starting &= !matches!(event, Event::Lifecycle { .. });
        let Some(publication) = publication(event) else {
            return Vec::new();
        };
        let pending = std::mem::take(&mut self.pending_metadata) && !publication.with_metadata;
        self.announced = true;
        let metadata = pending.then_some(Publication::MODIFIED);
        start
            .into_iter()
            .chain([publication])
            .chain(metadata)
            .collect()
    }
}

/// Whether libvirt removes the domain with this event; `None` if the event says nothing about that.
///
/// A persistent domain is undefined; a transient one, as it is on a migration's target, is gone when it stops. After a
/// successful migration the source's domain stops and is undefined, so its stop is not its last event.
fn deletes_domain(event: &VmEvent) -> Option<bool> {
    match event {
        VmEvent::Republish => Some(true),
        VmEvent::Libvirt(Event::Lifecycle { event, detail, .. }) => match event {
            LifecycleEvent::Undefined => Some(true),
            LifecycleEvent::Stopped => Some(*detail != Detail::Migrated),
            LifecycleEvent::Defined | LifecycleEvent::Started => Some(false),
            _ => None,
        },
        _ => None,
    }
}

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

#[cfg(test)]
mod tests;
