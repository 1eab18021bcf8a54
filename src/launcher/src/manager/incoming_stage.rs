//! The stages of a migration to this pod. Pure.
//!
//! ```text
//!   [none] ─prepared─▶ [expected] ─started, migrated─▶ [receiving] ─resumed, or paused by its owner─▶ [running]
//!     ▲                    │                              │                                             │
//!     └───────stopped──────┴──────────────────────────────┴─────────────────────────────────────────────┘
//! ```
//! Events that were lost with the connection to libvirt are recovered from the state of the domain.

use libvirt::{Detail, DomainState, Event, LifecycleEvent, Reason, State};

/// The stage of a migration to this pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IncomingStage {
    /// No migration to this pod.
    #[default]
    None,
    /// This pod is prepared for the VM, or is being prepared.
    Expected,
    /// The domain is here, its data is on the way.
    Receiving,
    /// The guest runs here, or is paused here because its owner paused it.
    Running,
}

impl IncomingStage {
    /// The stage once this pod is to be a migration's target.
    #[must_use]
    pub(super) fn expect(self) -> IncomingStage {
        match self {
            IncomingStage::None => IncomingStage::Expected,
            under_way => under_way,
        }
    }

    /// Whether an event of the migration is still to come.
    pub(super) fn is_under_way(self) -> bool {
        matches!(self, IncomingStage::Expected | IncomingStage::Receiving)
    }

    /// Whether libvirt has begun to receive the VM.
    pub(super) fn has_begun(self) -> bool {
        matches!(self, IncomingStage::Receiving | IncomingStage::Running)
    }

    /// The lifecycle events that were lost, by the state that the domain has now; `None` if there is no such domain. In
    /// post-copy the event that all memory is here is yet to come.
    pub(super) fn lost_events(self, state: Option<State>) -> Vec<(LifecycleEvent, Detail)> {
        let started = (LifecycleEvent::Started, Detail::Migrated);
        let Some(state) = state.filter(|state| state.is_active()) else {
            let stopped = (LifecycleEvent::Stopped, Detail::Failed);
            let is_lost = self == IncomingStage::Receiving;
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
            IncomingStage::Expected => [started].into_iter().chain(arrived).collect(),
            IncomingStage::Receiving => arrived.into_iter().collect(),
            IncomingStage::None | IncomingStage::Running => Vec::new(),
        }
    }

    /// The stage after an event of the domain.
    #[must_use]
    pub(super) fn observe(self, event: &Event) -> IncomingStage {
        let Event::Lifecycle { event, detail, .. } = event else {
            return self;
        };
        match (self, event, detail) {
            (_, LifecycleEvent::Stopped, _) => IncomingStage::None,
            (_, LifecycleEvent::Started, Detail::Migrated) => IncomingStage::Receiving,
            // After post-copy this event comes when all memory is here.
            (IncomingStage::Receiving, LifecycleEvent::Resumed, Detail::Migrated)
            | (IncomingStage::Receiving, LifecycleEvent::Suspended, Detail::Paused) => {
                IncomingStage::Running
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

    fn after(events: &[(LifecycleEvent, Detail)]) -> IncomingStage {
        let events = events.iter().map(|(kind, detail)| event(*kind, *detail));
        events.fold(IncomingStage::None, |stage, event| stage.observe(&event))
    }

    const STARTED: (LifecycleEvent, Detail) = (LifecycleEvent::Started, Detail::Migrated);
    const RESUMED: (LifecycleEvent, Detail) = (LifecycleEvent::Resumed, Detail::Migrated);

    #[test]
    fn guest_runs_after_a_migration_or_stays_paused() {
        let defined = (LifecycleEvent::Defined, Detail::Added);
        assert_eq!(after(&[STARTED, defined]), IncomingStage::Receiving);
        assert_eq!(after(&[STARTED, defined, RESUMED]), IncomingStage::Running);
        let paused = (LifecycleEvent::Suspended, Detail::Paused);
        assert_eq!(after(&[STARTED, paused]), IncomingStage::Running);
        let post_copy = (LifecycleEvent::Resumed, Detail::Postcopy);
        assert_eq!(after(&[STARTED, post_copy]), IncomingStage::Receiving);
        assert_eq!(
            after(&[STARTED, post_copy, RESUMED]),
            IncomingStage::Running
        );
    }

    #[test]
    fn pause_of_a_locally_booted_vm_is_not_incoming() {
        let booted = (LifecycleEvent::Started, Detail::Booted);
        let paused = (LifecycleEvent::Suspended, Detail::Paused);
        assert_eq!(after(&[booted, paused, RESUMED]), IncomingStage::None);
    }

    #[test]
    fn stopped_vm_has_not_arrived() {
        let stopped = (LifecycleEvent::Stopped, Detail::Failed);
        assert_eq!(after(&[STARTED, stopped, RESUMED]), IncomingStage::None);
    }

    #[test]
    fn lost_events_lead_to_the_same_stage() {
        let caught_up = |stage: IncomingStage, state, reason| {
            let lost = stage.lost_events(Some(State::new(state, reason)));
            let events = lost.iter().map(|(kind, detail)| event(*kind, *detail));
            events.fold(stage, |stage, event| stage.observe(&event))
        };
        for (stage, state, reason, expected) in [
            (
                IncomingStage::None,
                DomainState::Running,
                Reason::Booted,
                IncomingStage::None,
            ),
            (
                IncomingStage::Expected,
                DomainState::Shutoff,
                Reason::Unknown,
                IncomingStage::Expected,
            ),
            (
                IncomingStage::Expected,
                DomainState::Paused,
                Reason::Migration,
                IncomingStage::Receiving,
            ),
            (
                IncomingStage::Expected,
                DomainState::Running,
                Reason::Migrated,
                IncomingStage::Running,
            ),
            (
                IncomingStage::Receiving,
                DomainState::Running,
                Reason::Migrated,
                IncomingStage::Running,
            ),
            (
                IncomingStage::Receiving,
                DomainState::Paused,
                Reason::User,
                IncomingStage::Running,
            ),
            (
                IncomingStage::Receiving,
                DomainState::Running,
                Reason::Postcopy,
                IncomingStage::Receiving,
            ),
            (
                IncomingStage::Receiving,
                DomainState::Shutoff,
                Reason::Failed,
                IncomingStage::None,
            ),
            (
                IncomingStage::Running,
                DomainState::Running,
                Reason::Migrated,
                IncomingStage::Running,
            ),
        ] {
            let found = caught_up(stage, state, reason);
            assert_eq!(found, expected, "{stage:?} {state:?}/{reason:?}");
        }
    }

    #[test]
    fn domain_that_is_gone_does_not_arrive() {
        let stopped = (LifecycleEvent::Stopped, Detail::Failed);
        assert_eq!(IncomingStage::Receiving.lost_events(None), [stopped]);
        assert_eq!(IncomingStage::Expected.lost_events(None), []);
    }

    proptest! {
        #[test]
        fn only_an_incoming_migration_ends(kinds in proptest::collection::vec(0..5usize, 0..8)) {
            let all = [
                STARTED, RESUMED, (LifecycleEvent::Suspended, Detail::Paused),
                (LifecycleEvent::Stopped, Detail::Failed), (LifecycleEvent::Started, Detail::Booted),
            ];
            let events: Vec<_> = kinds.iter().map(|kind| all[*kind]).collect();
            if after(&events) == IncomingStage::Running {
                let since_stop = events.rsplit(|event| event.0 == LifecycleEvent::Stopped).next();
                prop_assert!(since_stop.is_some_and(|events| events.contains(&STARTED)));
            }
        }
    }
}
