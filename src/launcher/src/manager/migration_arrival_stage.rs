//! The stages of a VM's arrival by a migration. Pure.
//!
//! ```text
//!   [none] ──started, migrated──▶ [incoming] ──resumed, or paused by its owner──▶ [running]
//!     ▲                              │                                               │
//!     └────────────stopped───────────┴───────────────────────────────────────────────┘
//! ```

use libvirt::{Detail, Event, LifecycleEvent};

/// How far a migration to this pod is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArrivalStage {
    /// None is under way, or only its preparation.
    #[default]
    None,
    /// The domain is here, its data is on the way.
    Incoming,
    /// The guest runs here, or is paused here because its owner paused it.
    Running,
}

impl ArrivalStage {
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
