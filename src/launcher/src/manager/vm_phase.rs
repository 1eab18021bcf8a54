//! The phases of the domain, and the state by which commands are admitted. Pure.
//!
//! ```text
//!   [absent] ──▶ [defined] ──▶ [active] ──▶ [down] ──▶ [gone]
//!       │            │            ▲  └────────┼──────────▲
//!       │            │            ├───────────┘          │
//!       │            └────────────┼──────────────────────┘
//!       └─────────────────────────┘
//! ```
//! Only the observer changes the phase, from libvirt's state or QEMU's process. A domain that starts between two reads is
//! active at once. `gone` is final: a launcher runs one virtual machine.

use super::incoming_migration::IncomingMigrationStage;
use crate::libvirt_client::Presence;

/// The phase of the domain's life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The domain is not defined yet.
    #[default]
    Absent,
    /// The domain is defined and was never started.
    Defined,
    /// The domain has a QEMU process.
    Active,
    /// The domain's QEMU process has ended.
    Down,
    /// The domain existed, and is undefined now.
    Gone,
}

/// The launcher's side of a migration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// The VM boots or runs here, or has arrived.
    #[default]
    NoMigration,
    /// The VM migrates to another pod.
    Source,
    /// The VM is to arrive in this pod.
    Target,
}

/// The state of the VM by which commands are admitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VmState {
    /// The phase of the domain's life.
    pub phase: Phase,
    /// The launcher's side of a migration.
    pub role: Role,
    /// The stage of a migration to this pod.
    pub incoming_migration: IncomingMigrationStage,
    /// Whether the VM was started, and virt-handler has not accepted a notification that it is alive.
    pub start_unreported: bool,
}

impl Phase {
    /// The phase after a snapshot.
    #[must_use]
    pub fn observe(self, presence: Presence) -> Phase {
        match (self, presence) {
            (Phase::Gone, _) => Phase::Gone,
            (Phase::Absent, Presence::Absent) => Phase::Absent,
            (_, Presence::Absent) => Phase::Gone,
            (_, Presence::Active) => Phase::Active,
            (Phase::Absent | Phase::Defined, Presence::Inactive) => Phase::Defined,
            (Phase::Active | Phase::Down, Presence::Inactive) => Phase::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn phase_after(presences: &[Presence]) -> Phase {
        presences
            .iter()
            .fold(Phase::Absent, |state, presence| state.observe(*presence))
    }

    #[test]
    fn phases_follow_the_domains_presence() {
        use Presence::{Absent, Active, Inactive};
        assert_eq!(phase_after(&[Absent]), Phase::Absent);
        assert_eq!(phase_after(&[Absent, Inactive]), Phase::Defined);
        assert_eq!(phase_after(&[Inactive, Active]), Phase::Active);
        assert_eq!(phase_after(&[Inactive, Active, Inactive]), Phase::Down);
        assert_eq!(
            phase_after(&[Inactive, Active, Inactive, Active]),
            Phase::Active,
            "started again"
        );
        assert_eq!(
            phase_after(&[Inactive, Active, Inactive, Absent]),
            Phase::Gone
        );
        assert_eq!(
            phase_after(&[Inactive, Absent, Inactive]),
            Phase::Gone,
            "Gone is final"
        );
    }

    proptest! {
        #[test]
        fn phase_is_never_absent_again(presences in proptest::collection::vec(
            prop_oneof![Just(Presence::Absent), Just(Presence::Inactive), Just(Presence::Active)], 0..10))
        {
            let mut state = Phase::Absent;
            for presence in presences {
                let next = state.observe(presence);
                prop_assert!(next != Phase::Absent || state == Phase::Absent);
                state = next;
            }
        }
    }
}
