//! The phases of the domain. Pure.
//!
//! ```text
//!   [absent] ──▶ [defined] ──▶ [active] ──▶ [down] ──▶ [gone]
//!                    │            ▲  └────────┼──────────▲
//!                    │            └───────────┘          │
//!                    └───────────────────────────────────┘
//! ```
//! Only the observer changes the phase, from libvirt's state or QEMU's process. `gone` is final: a launcher runs one
//! virtual machine.

use super::incoming_stage::IncomingStage;
use crate::libvirt_client::Presence;

/// Where the domain is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not defined yet.
    #[default]
    Absent,
    /// Defined, never started.
    Defined,
    /// It has a QEMU process.
    Active,
    /// Its QEMU process ended.
    Down,
    /// It existed, and is undefined now.
    Gone,
}

/// Which side of a migration the VM is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// On none: the VM boots here, runs, or has arrived.
    #[default]
    Boot,
    /// It migrates away.
    Source,
    /// It is to arrive here.
    Target,
}

/// What admission knows of the VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VmState {
    /// Where the domain is in its life.
    pub phase: Phase,
    /// Which side of a migration it is on.
    pub role: Role,
    /// How far a migration to this pod is.
    pub incoming_migration: IncomingStage,
    /// The VM was started, and virt-handler has not accepted a notification that it is alive.
    pub start_unreported: bool,
}

impl Phase {
    /// The phase after a snapshot.
    #[must_use]
    pub fn observe(self, presence: Presence) -> Phase {
        match (self, presence) {
            (Phase::Gone, _) => Phase::Gone,
            (Phase::Absent, Presence::Nothing) => Phase::Absent,
            (_, Presence::Nothing) => Phase::Gone,
            (_, Presence::On) => Phase::Active,
            (Phase::Absent | Phase::Defined, Presence::Off) => Phase::Defined,
            (Phase::Active | Phase::Down, Presence::Off) => Phase::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn life(presences: &[Presence]) -> Phase {
        presences
            .iter()
            .fold(Phase::Absent, |state, presence| state.observe(*presence))
    }

    #[test]
    fn phases_follow_the_domains_presence() {
        use Presence::{Nothing, Off, On};
        assert_eq!(life(&[Nothing]), Phase::Absent);
        assert_eq!(life(&[Nothing, Off]), Phase::Defined);
        assert_eq!(life(&[Off, On]), Phase::Active);
        assert_eq!(life(&[Off, On, Off]), Phase::Down);
        assert_eq!(life(&[Off, On, Off, On]), Phase::Active, "a start repeated");
        assert_eq!(life(&[Off, On, Off, Nothing]), Phase::Gone);
        assert_eq!(
            life(&[Off, Nothing, Off]),
            Phase::Gone,
            "the end is the end"
        );
    }

    proptest! {
        #[test]
        fn phase_absent_never_returns(presences in proptest::collection::vec(
            prop_oneof![Just(Presence::Nothing), Just(Presence::Off), Just(Presence::On)], 0..10))
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
