//! The stages of a VM's arrival by a migration. Pure.
//!
//! ```text
//!   [none] ─prepared─▶ [expected] ─started, migrated─▶ [incoming] ─resumed, or paused by its owner─▶ [running]
//!     ▲                    │                              │                                             │
//!     └───────stopped──────┴──────────────────────────────┴─────────────────────────────────────────────┘
//! ```
//! Events that were lost with the connection to libvirt are recovered from the state of the domain.

use libvirt::{Detail, DomainState, Event, LifecycleEvent, Reason, State};

/// How far a migration to this pod is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArrivalStage {
    /// None is under way.
    #[default]
    None,
    /// This pod is prepared for the VM, or is being prepared.
    Expected,
    /// The domain is here, its data is on the way.
    Incoming,
    /// The guest runs here, or is paused here because its owner paused it.
    Running,
}

impl ArrivalStage {
    /// The stage once this pod is to be a migration's target.
    #[must_use]
    pub(super) fn expect(self) -> ArrivalStage {
        match self {
            ArrivalStage::None => ArrivalStage::Expected,
            under_way => under_way,
        }
    }

    /// Whether an event of the arrival is yet to come.
    pub(super) fn is_under_way(self) -> bool {
        matches!(self, ArrivalStage::Expected | ArrivalStage::Incoming)
    }

    /// Whether libvirt has begun to receive the VM.
    pub(super) fn has_begun(self) -> bool {
        matches!(self, ArrivalStage::Incoming | ArrivalStage::Running)
    }

    /// The lifecycle events that were lost, by the state that the domain has now; `None` if there is no such domain. In
    /// post-copy the event that all memory is here is yet to come.
    pub(super) fn lost_events(self, state: Option<State>) -> Vec<(LifecycleEvent, Detail)> {
        let started = (LifecycleEvent::Started, Detail::Migrated);
        let Some(state) = state.filter(|state| state.is_active()) else {
            let stopped = (LifecycleEvent::Stopped, Detail::Failed);
            let is_lost = self == ArrivalStage::Incoming;
            return is_lost.then_some(stopped).into_iter().collect();
        };
        let arrived = match (state.state, state.reason) {
            (DomainState::Running, Reason::Postcopy) => None,
            (DomainState::Running, _) => Some((LifecycleEvent::Resumed, Detail::Migrated)),
            (DomainState::Paused, Reason::User) => {
                Some((LifecycleEvent::Suspended, Detail::Paused))
            }
            _ => None,
        };
        match self {
            ArrivalStage::Expected => [started].into_iter().chain(arrived).collect(),
            ArrivalStage::Incoming => arrived.into_iter().collect(),
            ArrivalStage::None | ArrivalStage::Running => Vec::new(),
        }
    }

    /// The stage after an event of the domain.
    #[must_use]
    pub(super) fn observe(self, event: &Event) -> ArrivalStage {
        let Event::Lifecycle { event, detail, .. } = event else {
            return self;
        };
        match (self, event, detail) {
            (_, LifecycleEvent::Stopped, _) => ArrivalStage::None,
            (_, LifecycleEvent::Started, Detail::Migrated) => ArrivalStage::Incoming,
            // After post-copy this event comes when all memory is here.
            (ArrivalStage::Incoming, LifecycleEvent::Resumed, Detail::Migrated)
            | (ArrivalStage::Incoming, LifecycleEvent::Suspended, Detail::Paused) => {
                ArrivalStage::Running
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(event: LifecycleEvent, detail: Detail) -> Event {
        Event::Lifecycle {
            domain: "default_vm1".into(),
            event,
            detail,
        }
    }

    fn after(events: &[(LifecycleEvent, Detail)]) -> ArrivalStage {
        let events = events.iter().map(|(kind, detail)| event(*kind, *detail));
        events.fold(ArrivalStage::None, |stage, event| stage.observe(&event))
    }

    const STARTED: (LifecycleEvent, Detail) = (LifecycleEvent::Started, Detail::Migrated);
    const RESUMED: (LifecycleEvent, Detail) = (LifecycleEvent::Resumed, Detail::Migrated);

    #[test]
    fn guest_runs_after_a_migration_or_stays_paused() {
        let defined = (LifecycleEvent::Defined, Detail::Added);
        assert_eq!(after(&[STARTED, defined]), ArrivalStage::Incoming);
        assert_eq!(after(&[STARTED, defined, RESUMED]), ArrivalStage::Running);
        let paused = (LifecycleEvent::Suspended, Detail::Paused);
        assert_eq!(after(&[STARTED, paused]), ArrivalStage::Running);
        let post_copy = (LifecycleEvent::Resumed, Detail::Postcopy);
        assert_eq!(after(&[STARTED, post_copy]), ArrivalStage::Incoming);
        assert_eq!(after(&[STARTED, post_copy, RESUMED]), ArrivalStage::Running);
    }

    #[test]
    fn pause_of_a_vm_that_booted_here_is_no_arrival() {
        let booted = (LifecycleEvent::Started, Detail::Booted);
        let paused = (LifecycleEvent::Suspended, Detail::Paused);
        assert_eq!(after(&[booted, paused, RESUMED]), ArrivalStage::None);
    }

    #[test]
    fn stopped_vm_has_not_arrived() {
        let stopped = (LifecycleEvent::Stopped, Detail::Failed);
        assert_eq!(after(&[STARTED, stopped, RESUMED]), ArrivalStage::None);
    }

    #[test]
    fn lost_events_lead_to_the_same_stage() {
        let caught_up = |stage: ArrivalStage, state, reason| {
            let lost = stage.lost_events(Some(State::new(state, reason)));
            let events = lost.iter().map(|(kind, detail)| event(*kind, *detail));
            events.fold(stage, |stage, event| stage.observe(&event))
        };
        for (stage, state, reason, expected) in [
            (
                ArrivalStage::None,
                DomainState::Running,
                Reason::Booted,
                ArrivalStage::None,
            ),
            (
                ArrivalStage::Expected,
                DomainState::Shutoff,
                Reason::Unknown,
                ArrivalStage::Expected,
            ),
            (
                ArrivalStage::Expected,
                DomainState::Paused,
                Reason::Migration,
                ArrivalStage::Incoming,
            ),
            (
                ArrivalStage::Expected,
                DomainState::Running,
                Reason::Migrated,
                ArrivalStage::Running,
            ),
            (
                ArrivalStage::Incoming,
                DomainState::Running,
                Reason::Migrated,
                ArrivalStage::Running,
            ),
            (
                ArrivalStage::Incoming,
                DomainState::Paused,
                Reason::User,
                ArrivalStage::Running,
            ),
            (
                ArrivalStage::Incoming,
                DomainState::Running,
                Reason::Postcopy,
                ArrivalStage::Incoming,
            ),
            (
                ArrivalStage::Incoming,
                DomainState::Shutoff,
                Reason::Failed,
                ArrivalStage::None,
            ),
            (
                ArrivalStage::Running,
                DomainState::Running,
                Reason::Migrated,
                ArrivalStage::Running,
            ),
        ] {
            let found = caught_up(stage, state, reason);
            assert_eq!(found, expected, "{stage:?} {state:?}/{reason:?}");
        }
    }

    #[test]
    fn domain_that_is_gone_does_not_arrive() {
        let stopped = (LifecycleEvent::Stopped, Detail::Failed);
        assert_eq!(ArrivalStage::Incoming.lost_events(None), [stopped]);
        assert_eq!(ArrivalStage::Expected.lost_events(None), []);
    }

    proptest! {
        #[test]
        fn only_an_incoming_migration_ends(kinds in proptest::collection::vec(0..5usize, 0..8)) {
            let all = [
                STARTED, RESUMED, (LifecycleEvent::Suspended, Detail::Paused),
                (LifecycleEvent::Stopped, Detail::Failed), (LifecycleEvent::Started, Detail::Booted),
            ];
            let events: Vec<_> = kinds.iter().map(|kind| all[*kind]).collect();
            if after(&events) == ArrivalStage::Running {
                let since_stop = events.rsplit(|event| event.0 == LifecycleEvent::Stopped).next();
                prop_assert!(since_stop.is_some_and(|events| events.contains(&STARTED)));
            }
        }
    }
}
