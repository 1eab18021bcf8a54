//! Which notifications follow from which facts. Pure.
//!
//! ```text
//!            metadata (kept)
//!               ┌──┐
//!               │  ▼
//!            [silent] ──first event of the domain──▶ [speaking] ──▶ one publication per fact
//! ```
//!
//! virt-handler learns of a domain through `ADDED`, which carries no KubeVirt metadata yet, and then
//! through `MODIFIED`, which does. libvirt's word on the definition and the launcher's own change of
//! metadata race each other; this order is kept whoever wins.

use libvirt::{Detail, Event, LifecycleEvent};

/// Kubernetes' watch event types, as far as a launcher sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// The domain is new to virt-handler.
    Added,
    /// Something about it changed, its end included.
    Modified,
}

impl EventType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
        }
    }
}

/// One notification to be made of the domain as it is when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publication {
    /// What virt-handler is told it is.
    pub event_type: EventType,
    /// Whether KubeVirt's metadata (uid, grace period...) goes with it.
    pub with_metadata: bool,
    /// If the domain turns out to be gone, this is the end: it gets a deletion timestamp.
    pub may_be_last: bool,
    /// What is told is the moment before the domain's processors run, which may have passed by now.
    pub starting_up: bool,
}

impl Publication {
    const MODIFIED: Publication = Publication {
        event_type: EventType::Modified,
        with_metadata: true,
        may_be_last: false,
        starting_up: false,
    };
}

/// Something that virt-handler may have to hear of.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// libvirt's word.
    Libvirt(Event),
    /// KubeVirt's metadata changed.
    Metadata,
    /// The connection to libvirt is back; what happened meanwhile is not known.
    Reconnected,
    /// QEMU's process ended, and libvirt has not said so.
    QemuEnded,
    /// A start is under way: QEMU is there, its processors do not run yet.
    StartingUp,
}

/// The policy and what it remembers.
#[derive(Debug, Default)]
pub struct Publications {
    speaking: bool,
    kept_metadata: bool,
    told_on: bool,
    starting: bool,
}

impl Publications {
    /// What to publish now that `fact` is known, in order.
    pub fn observe(&mut self, fact: &Fact) -> Vec<Publication> {
        match fact {
            Fact::Libvirt(event) => self.observe_event(event),
            Fact::Metadata if self.speaking => vec![Publication::MODIFIED],
            Fact::Metadata => {
                self.kept_metadata = true;
                Vec::new()
            }
            Fact::Reconnected | Fact::QemuEnded if self.speaking => vec![Publication {
                may_be_last: true,
                ..Publication::MODIFIED
            }],
            Fact::Reconnected | Fact::QemuEnded => Vec::new(),
            Fact::StartingUp => self.observe_start().into_iter().collect(),
        }
    }

    /// Only between "off" and "on": what was told already, or is over, is not told again.
    fn observe_start(&mut self) -> Option<Publication> {
        let news = self.speaking && !self.told_on;
        self.starting |= news;
        news.then_some(Publication {
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
        no_agent && self.speaking && (self.starting || !self.told_on)
    }

    /// Until a domain runs, only the launcher defines it, in as many steps as that takes.
    fn is_own_work(&self, event: &Event) -> bool {
        let redefined = matches!(
            event,
            Event::Lifecycle {
                event: LifecycleEvent::Defined,
                detail: Detail::Updated,
                ..
            }
        );
        redefined && !self.told_on
    }

    /// A publication was made of a domain that has its QEMU process, or of one that has not.
    pub fn observe_told(&mut self, on: bool) {
        self.told_on = on;
    }

    fn observe_event(&mut self, event: &Event) -> Vec<Publication> {
        if self.is_start(event) {
            return self.observe_start().into_iter().collect();
        }
        if self.is_own_work(event) {
            return Vec::new();
        }
        self.starting &= !matches!(event, Event::Lifecycle { .. });
        let Some(publication) = publication(event) else {
            return Vec::new();
        };
        let kept = std::mem::take(&mut self.kept_metadata) && !publication.with_metadata;
        self.speaking = true;
        let told = kept.then_some(Publication::MODIFIED);
        std::iter::once(publication).chain(told).collect()
    }
}

fn publication(event: &Event) -> Option<Publication> {
    match event {
        Event::Lifecycle { event, detail, .. } => Some(of_lifecycle(*event, *detail)),
        Event::AgentLifecycle { .. }
        | Event::DeviceAdded { .. }
        | Event::DeviceRemoved { .. }
        | Event::MemoryDeviceSize { .. }
        | Event::JobCompleted { .. } => Some(Publication::MODIFIED),
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

    fn lifecycle(event: LifecycleEvent, detail: Detail) -> Fact {
        Fact::Libvirt(Event::Lifecycle {
            domain: "default_vm1".into(),
            event,
            detail,
        })
    }

    fn kinds(facts: &[Fact]) -> Vec<(&'static str, bool)> {
        let mut policy = Publications::default();
        facts
            .iter()
            .flat_map(|fact| policy.observe(fact))
            .map(|publication| (publication.event_type.as_str(), publication.with_metadata))
            .collect()
    }

    const ADDED: (&str, bool) = ("ADDED", false);
    const MODIFIED: (&str, bool) = ("MODIFIED", true);

    #[test]
    fn definition_comes_before_metadata_whoever_wins_the_race() {
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        assert_eq!(kinds(&[defined.clone(), Fact::Metadata]), [ADDED, MODIFIED]);
        assert_eq!(kinds(&[Fact::Metadata, defined]), [ADDED, MODIFIED]);
    }

    #[test]
    fn nothing_is_said_before_the_first_event() {
        assert_eq!(
            kinds(&[Fact::Metadata, Fact::Reconnected, Fact::Metadata]),
            []
        );
    }

    #[test]
    fn a_definition_in_steps_is_one_definition() {
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let updated = lifecycle(LifecycleEvent::Defined, Detail::Updated);
        assert_eq!(kinds(&[defined.clone(), updated.clone()]), [ADDED]);
        let mut policy = Publications::default();
        policy.observe(&defined);
        policy.observe_told(true);
        assert_eq!(policy.observe(&updated), [Publication::MODIFIED]);
    }

    #[test]
    fn a_plain_pause_is_told_once() {
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let paused = lifecycle(LifecycleEvent::Suspended, Detail::Paused);
        assert_eq!(kinds(&[defined, paused]), [ADDED, MODIFIED]);
    }

    #[test]
    fn an_arriving_migration_is_added_with_its_metadata() {
        assert_eq!(
            kinds(&[lifecycle(LifecycleEvent::Started, Detail::Migrated)]),
            [("ADDED", true)]
        );
    }

    #[test]
    fn only_an_end_may_be_the_last_word() {
        let mut policy = Publications::default();
        let mut last = |event, detail| policy.observe(&lifecycle(event, detail))[0].may_be_last;
        assert!(last(LifecycleEvent::Undefined, Detail::Removed));
        assert!(last(LifecycleEvent::Stopped, Detail::Destroyed));
        assert!(!last(LifecycleEvent::Stopped, Detail::Migrated));
        assert!(!last(LifecycleEvent::Started, Detail::Booted));
    }

    #[test]
    fn a_reboot_is_no_news() {
        let reboot = Fact::Libvirt(Event::Reboot {
            domain: "default_vm1".into(),
        });
        assert_eq!(kinds(&[reboot]), []);
    }

    #[test]
    fn starting_up_is_told_once_and_only_before_the_domain_runs() {
        let mut policy = Publications::default();
        assert_eq!(policy.observe(&Fact::StartingUp), [], "nobody knows it yet");
        policy.observe(&lifecycle(LifecycleEvent::Defined, Detail::Added));
        policy.observe_told(false);
        let told = policy.observe(&Fact::StartingUp);
        assert!(told.len() == 1 && told[0].starting_up && told[0].with_metadata);
        policy.observe_told(true);
        assert_eq!(policy.observe(&Fact::StartingUp), []);
        policy.observe_told(false);
        assert_eq!(policy.observe(&Fact::StartingUp).len(), 1, "another start");
    }

    #[test]
    fn a_start_has_two_witnesses_and_is_told_once() {
        let no_agent = Fact::Libvirt(Event::AgentLifecycle {
            domain: "default_vm1".into(),
            connected: false,
        });
        let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
        let resumed = lifecycle(LifecycleEvent::Resumed, Detail::Unpaused);
        for (first, second) in [
            (&no_agent, &Fact::StartingUp),
            (&Fact::StartingUp, &no_agent),
        ] {
            let mut policy = Publications::default();
            policy.observe(&defined);
            policy.observe_told(false);
            assert!(policy.observe(first)[0].starting_up);
            policy.observe_told(true);
            assert_eq!(policy.observe(second), []);
            assert!(!policy.observe(&resumed)[0].starting_up);
            let lost = policy.observe(&no_agent);
            assert!(lost.len() == 1 && !lost[0].starting_up, "later it is news");
        }
    }

    fn any_fact() -> impl Strategy<Value = Fact> {
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
            Just(Fact::Metadata),
            Just(Fact::Reconnected),
        ]
    }

    proptest! {
        /// Metadata is never lost: after the first event, the last change has been told.
        #[test]
        fn every_change_of_metadata_is_told(facts in proptest::collection::vec(any_fact(), 0..12)) {
            let mut policy = Publications::default();
            let (mut spoken, mut untold) = (false, false);
            for fact in &facts {
                untold |= *fact == Fact::Metadata;
                for publication in policy.observe(fact) {
                    spoken = true;
                    untold &= !publication.with_metadata;
                }
            }
            prop_assert!(!spoken || !untold);
        }
    }
}
