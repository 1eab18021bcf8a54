//! The stages of a migration to this pod. Pure.
//!
//! ```text
//!   [none] ─prepared─▶ [expected] ─started, migrated─▶ [receiving] ─resumed, or paused by its owner─▶ [running]
//!     ▲                    │                              │                                             │
//!     └───────stopped──────┴──────────────────────────────┴─────────────────────────────────────────────┘
//! ```
//! Events that were lost with the connection to libvirt are derived from the state of the domain.

use libvirt::{Detail, DomainState, Event, LifecycleEvent, Reason, State};

/// The stage of a migration to this pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IncomingMigrationStage {
    /// There is no migration to this pod.
    #[default]
    None,
    /// This pod has been prepared for the VM, or is being prepared.
    Expected,
    /// libvirt has the domain and is receiving its state.
    Receiving,
    /// The guest runs here, or is paused here because its owner paused it.
    Running,
}

impl IncomingMigrationStage {
    /// The stage after this pod was chosen as a migration's target.
    #[must_use]
    pub(super) fn expect(self) -> IncomingMigrationStage {
        match self {
            IncomingMigrationStage::None => IncomingMigrationStage::Expected,
            under_way => under_way,
        }
    }

    /// Whether events of the migration are still expected.
    pub(super) fn is_under_way(self) -> bool {
        matches!(
            self,
            IncomingMigrationStage::Expected | IncomingMigrationStage::Receiving
        )
    }

    /// Whether libvirt has begun to receive the VM.
    pub(super) fn has_begun(self) -> bool {
        matches!(
            self,
            IncomingMigrationStage::Receiving | IncomingMigrationStage::Running
        )
    }

    /// The lifecycle events that were lost, derived from the state of the domain; `None` if there is no domain. During
    /// post-copy, the event that all memory has arrived is still expected.
    pub(super) fn lost_events(self, state: Option<State>) -> Vec<(LifecycleEvent, Detail)> {
        let started = (LifecycleEvent::Started, Detail::Migrated);
        let Some(state) = state.filter(|state| state.is_active()) else {
            let stopped = (LifecycleEvent::Stopped, Detail::Failed);
            let is_lost = self == IncomingMigrationStage::Receiving;
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
            IncomingMigrationStage::Expected => [started].into_iter().chain(arrived).collect(),
            IncomingMigrationStage::Receiving => arrived.into_iter().collect(),
            IncomingMigrationStage::None | IncomingMigrationStage::Running => Vec::new(),
        }
    }

    /// The stage after an event of the domain.
    #[must_use]
    pub(super) fn observe(self, event: &Event) -> IncomingMigrationStage {
        let Event::Lifecycle { event, detail, .. } = event else {
            return self;
        };
        match (self, event, detail) {
            (_, LifecycleEvent::Stopped, _) => IncomingMigrationStage::None,
            (_, LifecycleEvent::Started, Detail::Migrated) => IncomingMigrationStage::Receiving,
            // After post-copy, libvirt sends this event when all memory has arrived.
            (IncomingMigrationStage::Receiving, LifecycleEvent::Resumed, Detail::Migrated)
            | (IncomingMigrationStage::Receiving, LifecycleEvent::Suspended, Detail::Paused) => {
                IncomingMigrationStage::Running
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests;
