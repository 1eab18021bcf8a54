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
//! the migration by them. What libvirt reports before that (the agent's channel is there) says nothing about the VM,
//! and its definition after that says nothing new. Nor does the end of a QEMU in which the guest has never run, which
//! libvirt ends when the migration fails; that the domain is gone is told after that.

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
    /// If the domain is gone, this is the last notification: it gets a deletion timestamp.
    pub may_be_last: bool,
    /// It reports the moment before the domain's processors run, which may be over already.
    pub starting_up: bool,
}

impl Publication {
    /// The domain as it is, under `MODIFIED`, with KubeVirt's metadata.
    pub(crate) const MODIFIED: Publication = Publication {
        event_type: EventType::Modified,
        with_metadata: true,
        may_be_last: false,
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
    arriving: bool,
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
                let publication = Publication {
                    may_be_last: true,
                    ..Publication::MODIFIED
                };
                self.announced.then_some(publication).into_iter().collect()
            }
            VmEvent::QemuMissing if self.published_active => vec![Publication {
                may_be_last: true,
                ..Publication::MODIFIED
            }],
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

    /// Only between "off" and "on": a start that was published, or is over, is not published again.
    fn observe_start(&mut self) -> Option<Publication> {
        let is_unpublished = self.announced && !self.published_active;
        self.starting |= is_unpublished;
        is_unpublished.then_some(Publication {
            starting_up: true,
            ..Publication::MODIFIED
        })
    }

    /// Each start sets out with an agent that is not connected: the same moment in other words.
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

    /// Whether the processors run; if the moment before was not published, it is published now.
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

    /// libvirt makes an arriving domain persistent, and the launcher completes the definition.
    fn is_definition_of_arrived(&mut self, event: &Event) -> bool {
        let Event::Lifecycle { event, detail, .. } = event else {
            return false;
        };
        match (event, detail) {
            (LifecycleEvent::Defined, Detail::Added) => self.arriving,
            (LifecycleEvent::Defined, _) if self.own_redefinitions > 0 => {
                self.own_redefinitions -= 1;
                true
            }
            (LifecycleEvent::Defined, _) => false,
            (LifecycleEvent::Started, Detail::Migrated) => {
                self.arriving = true;
                false
            }
            (LifecycleEvent::Started | LifecycleEvent::Resumed, _)
            | (LifecycleEvent::Suspended, Detail::Paused) => {
                self.arriving = false;
                false
            }
            _ => false,
        }
    }

    /// A VM is arriving, and its guest has not run here.
    pub(crate) fn is_arriving(&self) -> bool {
        self.arriving
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
        // Of a domain that nobody knows yet, or whose guest does not run here yet.
        let says_little = match event {
            Event::Lifecycle { event, .. } => *event == LifecycleEvent::Shutdown,
            _ => true,
        };
        let is_early = (!self.announced || self.arriving) && says_little;
        if is_early || self.is_definition_of_arrived(event) || self.is_own_redefinition(event) {
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
        (LifecycleEvent::Stopped, Detail::Migrated) => Publication::MODIFIED,
        (LifecycleEvent::Undefined | LifecycleEvent::Stopped, _) => Publication {
            may_be_last: true,
            ..Publication::MODIFIED
        },
        _ => Publication::MODIFIED,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lifecycle(event: LifecycleEvent, detail: Detail) -> VmEvent {
        VmEvent::Libvirt(Event::Lifecycle {
            domain: "default_vm1".into(),
            event,
            detail,
        })
    }

    fn kinds(events: &[VmEvent]) -> Vec<(&'static str, bool)> {
        let mut policy = Publications::default();
        events
            .iter()
            .flat_map(|event| policy.observe(event))
            .map(|publication| (publication.event_type.as_str(), publication.with_metadata))
            .collect()
    }

    const ADDED: (&str, bool) = ("ADDED", false);
    const MODIFIED: (&str, bool) = ("MODIFIED", true);

    #[test]
    fn definition_is_published_before_metadata_in_either_order() {
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        assert_eq!(
            kinds(&[defined.clone(), VmEvent::Metadata]),
            [ADDED, MODIFIED]
        );
        assert_eq!(kinds(&[VmEvent::Metadata, defined]), [ADDED, MODIFIED]);
    }

    #[test]
    fn nothing_is_published_before_the_first_event() {
        assert_eq!(
            kinds(&[VmEvent::Metadata, VmEvent::Republish, VmEvent::Metadata]),
            []
        );
    }

    #[test]
    fn definition_in_two_steps_is_published_once() {
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let updated = lifecycle(LifecycleEvent::Defined, Detail::Updated);
        assert_eq!(kinds(&[defined.clone(), updated.clone()]), [ADDED]);
        let mut policy = Publications::default();
        policy.observe(&defined);
        policy.observe_published(true);
        assert_eq!(policy.observe(&updated), [Publication::MODIFIED]);
    }

    #[test]
    fn pause_is_published_once() {
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let paused = lifecycle(LifecycleEvent::Suspended, Detail::Paused);
        assert_eq!(kinds(&[defined, paused]), [ADDED, MODIFIED]);
    }

    #[test]
    fn incoming_migration_is_added_with_its_metadata() {
        assert_eq!(
            kinds(&[lifecycle(LifecycleEvent::Started, Detail::Migrated)]),
            [("ADDED", true)]
        );
    }

    #[test]
    fn arriving_vm_is_added_once_and_its_definition_is_not_published() {
        let no_agent = VmEvent::Libvirt(Event::AgentLifecycle {
            domain: "default_vm1".into(),
            connected: false,
        });
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let updated = lifecycle(LifecycleEvent::Defined, Detail::Updated);
        let events = [
            VmEvent::Metadata,
            no_agent.clone(),
            lifecycle(LifecycleEvent::Started, Detail::Migrated),
            no_agent,
            defined,
            VmEvent::Redefining,
            lifecycle(LifecycleEvent::Resumed, Detail::Migrated),
            updated.clone(),
            VmEvent::Metadata,
        ];
        let mut policy = Publications::default();
        let mut published = Vec::new();
        for event in &events {
            for publication in policy.observe(event) {
                published.push((publication.event_type.as_str(), publication.with_metadata));
                policy.observe_published(true);
            }
        }
        assert_eq!(published, [("ADDED", true), MODIFIED, MODIFIED]);
        assert_eq!(
            policy.observe(&updated),
            [Publication::MODIFIED],
            "a definition that is not the launcher's"
        );
    }

    #[test]
    fn end_of_a_qemu_in_which_the_guest_never_ran_is_told_when_the_domain_is_gone() {
        let ending = lifecycle(LifecycleEvent::Shutdown, Detail::Finished);
        assert_eq!(kinds(&[VmEvent::Metadata, ending.clone()]), []);
        let incoming = lifecycle(LifecycleEvent::Started, Detail::Migrated);
        let gone = lifecycle(LifecycleEvent::Stopped, Detail::Failed);
        let told = kinds(&[incoming.clone(), ending.clone(), gone]);
        assert_eq!(told, [("ADDED", true), MODIFIED]);
        let resumed = lifecycle(LifecycleEvent::Resumed, Detail::Migrated);
        let told = kinds(&[incoming, resumed, ending]);
        assert_eq!(told, [("ADDED", true), MODIFIED, MODIFIED]);
    }

    #[test]
    fn missing_qemu_is_looked_into_if_the_domain_was_on() {
        let mut policy = Publications::default();
        assert_eq!(policy.observe(&VmEvent::QemuMissing), []);
        policy.observe(&lifecycle(LifecycleEvent::Started, Detail::Booted));
        policy.observe_published(true);
        let told = policy.observe(&VmEvent::QemuMissing);
        assert!(told.len() == 1 && told[0].may_be_last);
        policy.observe_published(false);
        assert_eq!(policy.observe(&VmEvent::QemuMissing), []);
    }

    #[test]
    fn definition_after_a_failed_one_is_published() {
        let updated = lifecycle(LifecycleEvent::Defined, Detail::Updated);
        for ended in [VmEvent::NotRedefined, VmEvent::Republish] {
            let mut policy = Publications::default();
            policy.observe(&lifecycle(LifecycleEvent::Started, Detail::Migrated));
            policy.observe_published(true);
            policy.observe(&lifecycle(LifecycleEvent::Resumed, Detail::Migrated));
            policy.observe(&VmEvent::Redefining);
            policy.observe(&ended);
            let published = policy.observe(&updated);
            assert_eq!(published, [Publication::MODIFIED], "{ended:?}");
        }
    }

    #[test]
    fn only_an_end_may_be_the_last_publication() {
        let mut policy = Publications::default();
        let mut last = |event, detail| policy.observe(&lifecycle(event, detail))[0].may_be_last;
        assert!(last(LifecycleEvent::Undefined, Detail::Removed));
        assert!(last(LifecycleEvent::Stopped, Detail::Destroyed));
        assert!(!last(LifecycleEvent::Stopped, Detail::Migrated));
        assert!(!last(LifecycleEvent::Started, Detail::Booted));
    }

    /// KubeVirt's launcher says `ADDED` when a backup ends.
    #[test]
    fn end_of_a_backup_is_added_once_with_its_record() {
        let job = |operation| {
            VmEvent::Libvirt(Event::JobCompleted {
                domain: "default_vm1".into(),
                params: vec![("operation".into(), libvirt::ParamValue::Signed(operation))],
            })
        };
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let end = [job(9), VmEvent::BackupEnded, VmEvent::Metadata];
        let events = [&[defined.clone()][..], &end].concat();
        assert_eq!(kinds(&events), [ADDED, ("ADDED", true), MODIFIED]);
        assert_eq!(kinds(&[defined, job(8)]), [ADDED, MODIFIED]);
        assert_eq!(kinds(&[VmEvent::BackupEnded]), []);
    }

    #[test]
    fn reboot_is_not_published() {
        let reboot = VmEvent::Libvirt(Event::Reboot {
            domain: "default_vm1".into(),
        });
        assert_eq!(kinds(&[reboot]), []);
    }

    #[test]
    fn starting_up_is_published_once_and_only_before_the_domain_runs() {
        let mut policy = Publications::default();
        assert_eq!(
            policy.observe(&VmEvent::StartingUp),
            [],
            "nobody knows it yet"
        );
        policy.observe(&lifecycle(LifecycleEvent::Defined, Detail::Added));
        policy.observe_published(false);
        let published = policy.observe(&VmEvent::StartingUp);
        assert!(published.len() == 1 && published[0].starting_up && published[0].with_metadata);
        policy.observe_published(true);
        assert_eq!(policy.observe(&VmEvent::StartingUp), []);
        policy.observe_published(false);
        assert_eq!(
            policy.observe(&VmEvent::StartingUp).len(),
            1,
            "another start"
        );
    }

    #[test]
    fn failed_start_is_published_if_the_start_was() {
        let mut policy = Publications::default();
        policy.observe(&lifecycle(LifecycleEvent::Defined, Detail::Added));
        policy.observe_published(false);
        assert_eq!(policy.observe(&VmEvent::StartFailed), []);
        policy.observe(&VmEvent::StartingUp);
        policy.observe_published(true);
        assert_eq!(
            policy.observe(&VmEvent::StartFailed),
            [Publication::MODIFIED]
        );
    }

    #[test]
    fn start_seen_by_two_events_is_published_once() {
        let no_agent = VmEvent::Libvirt(Event::AgentLifecycle {
            domain: "default_vm1".into(),
            connected: false,
        });
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let resumed = lifecycle(LifecycleEvent::Resumed, Detail::Unpaused);
        for (first, second) in [
            (&no_agent, &VmEvent::StartingUp),
            (&VmEvent::StartingUp, &no_agent),
        ] {
            let mut policy = Publications::default();
            policy.observe(&defined);
            policy.observe_published(false);
            assert!(policy.observe(first)[0].starting_up);
            policy.observe_published(true);
            assert_eq!(policy.observe(second), []);
            assert!(!policy.observe(&resumed)[0].starting_up);
            let lost = policy.observe(&no_agent);
            assert!(lost.len() == 1 && !lost[0].starting_up, "later it is news");
        }
    }

    fn any_event() -> impl Strategy<Value = VmEvent> {
        use LifecycleEvent::{Defined, Resumed, Started, Stopped, Suspended, Undefined};
        let events = prop_oneof![
            Just((Defined, Detail::Added)),
            Just((Defined, Detail::Updated)),
            Just((Started, Detail::Booted)),
            Just((Suspended, Detail::Paused)),
            Just((Resumed, Detail::Unpaused)),
            Just((Stopped, Detail::Destroyed)),
            Just((Undefined, Detail::Removed)),
        ];
        prop_oneof![
            events.prop_map(|(event, detail)| lifecycle(event, detail)),
            Just(VmEvent::Metadata),
            Just(VmEvent::Republish),
        ]
    }

    proptest! {
        /// Metadata is never lost: after the first event, the last change has been published.
        #[test]
        fn every_change_of_metadata_is_published(events in proptest::collection::vec(any_event(), 0..12)) {
            let mut policy = Publications::default();
            let (mut announced, mut unpublished) = (false, false);
            for event in &events {
                unpublished |= *event == VmEvent::Metadata;
                for publication in policy.observe(event) {
                    announced = true;
                    unpublished &= !publication.with_metadata;
                }
            }
            prop_assert!(!announced || !unpublished);
        }
    }
}
