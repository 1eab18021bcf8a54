//! Which notifications follow from which events. Pure.
//!
//! ```text
//!          metadata (pending)
//!               ┌──┐
//!               │  ▼
//!          [unannounced] ──first event of the domain──▶ [announced] ──▶ one publication per event
//! ```
//!
//! virt-handler learns of a domain through `ADDED`, which carries no KubeVirt metadata yet, and then
//! through `MODIFIED`, which does. libvirt's event of the definition and the launcher's own change of
//! metadata may come in either order; the notifications keep this one.
//!
//! A VM that arrives by a migration is announced by `ADDED` when libvirt has it, with its metadata: virt-handler knows
//! the migration by them. Three kinds of event are not published during such a migration: events before the VM has
//! arrived (the agent's channel is there), the event of its definition afterwards, and the end of a QEMU in which the guest
//! never ran (libvirt ends it when the migration fails; the notification that the domain is gone follows).

#[cfg(test)]
mod tests;

use libvirt::{Detail, Event, JobOperation, LifecycleEvent};

use crate::vm_events::VmEvent;

/// Kubernetes' watch event types, as far as a launcher sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// The domain is new to virt-handler.
    Added,
    /// Something about it changed, its end included.
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

/// A notification to send; its content is the domain at the time of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Publication {
    /// The type of the event.
    pub event_type: EventType,
    /// Whether KubeVirt's metadata (uid, grace period...) goes with it.
    pub with_metadata: bool,
    /// It reports the moment before the domain's processors run, which may be over already.
    pub starting_up: bool,
}

impl Publication {
    /// The domain as it is, under `MODIFIED`, with KubeVirt's metadata.
    pub(crate) const MODIFIED: Publication = Publication {
        event_type: EventType::Modified,
        with_metadata: true,
        starting_up: false,
    };
}

/// The policy and its state.
#[derive(Debug, Default)]
pub(crate) struct Publications {
    announced: bool,
    pending_metadata: bool,
    published_active: bool,
    starting: bool,
    incoming: bool,
    own_redefinitions: u32,
}

impl Publications {
    /// The notifications that follow from an event, in order.
    pub(crate) fn observe(&mut self, event: &VmEvent) -> Vec<Publication> {
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
            VmEvent::Republish | VmEvent::QemuEnded => {
                // Events from before are lost: the next one is of another definition.
                self.own_redefinitions = 0;
                let publication = self.announced.then_some(Publication::MODIFIED);
                publication.into_iter().collect()
            }
            VmEvent::QemuMissing if self.published_active => vec![Publication::MODIFIED],
            VmEvent::QemuMissing => Vec::new(),
            VmEvent::Redefining => {
                self.own_redefinitions += 1;
                Vec::new()
            }
            VmEvent::NotRedefined => {
                self.own_redefinitions = self.own_redefinitions.saturating_sub(1);
                Vec::new()
            }
            VmEvent::StartingUp => self.observe_start().into_iter().collect(),
            VmEvent::StartFailed if self.published_active => vec![Publication::MODIFIED],
            VmEvent::StartFailed
            | VmEvent::GuestAsked
            | VmEvent::Destroying
            | VmEvent::Departing => Vec::new(),
        }
    }

    /// A start is published once, and only while the VM is off.
    fn observe_start(&mut self) -> Option<Publication> {
        let is_unpublished = self.announced && !self.published_active;
        self.starting |= is_unpublished;
        is_unpublished.then_some(Publication {
            starting_up: true,
            ..Publication::MODIFIED
        })
    }

    /// At each start libvirt reports that the agent is not connected: another event of the same moment.
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

    /// Whether the vCPUs run. A start that was not published before is published first.
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

    /// Until a domain runs, only the launcher defines it, in as many steps as that takes.
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

    /// libvirt makes an incoming domain persistent, and the launcher completes the definition.
    fn is_definition_of_incoming_domain(&mut self, event: &Event) -> bool {
        let Event::Lifecycle { event, detail, .. } = event else {
            return false;
        };
        match (event, detail) {
            (LifecycleEvent::Defined, Detail::Added) => self.incoming,
            (LifecycleEvent::Defined, _) if self.own_redefinitions > 0 => {
                self.own_redefinitions -= 1;
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

    /// Whether a migration to this pod is running, and the guest has not run here.
    pub(crate) fn is_incoming(&self) -> bool {
        self.incoming
    }

    /// A publication was made of a domain that has its QEMU process, or of one that has not.
    pub(crate) fn observe_published(&mut self, on: bool) {
        self.published_active = on;
    }

    /// The last publication was of a domain with a QEMU process.
    pub(crate) fn last_published_active(&self) -> bool {
        self.published_active
    }

    fn observe_event(&mut self, event: &Event) -> Vec<Publication> {
        if self.is_start(event) {
            return self.observe_start().into_iter().collect();
        }
        // The domain is not announced yet, or its guest does not run here yet.
        let says_little = match event {
            Event::Lifecycle { event, .. } => *event == LifecycleEvent::Shutdown,
            _ => true,
        };
        let is_early = (!self.announced || self.incoming) && says_little;
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

fn publication(event: &Event) -> Option<Publication> {
    match event {
        Event::Lifecycle { event, detail, .. } => Some(of_lifecycle(*event, *detail)),
        Event::AgentLifecycle { .. }
        | Event::DeviceAdded { .. }
        | Event::DeviceRemoved { .. }
        | Event::MemoryDeviceSize { .. } => Some(Publication::MODIFIED),
        // The end of a backup is published with its record.
        Event::JobCompleted { params, .. } => (JobOperation::of_params(params)
            != JobOperation::Backup)
            .then_some(Publication::MODIFIED),
        _ => None,
    }
}

fn of_lifecycle(event: LifecycleEvent, detail: Detail) -> Publication {
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
