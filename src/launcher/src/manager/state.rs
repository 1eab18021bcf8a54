//! What is known of the domain. Pure.
//!
//! ```text
//!   [absent] ──▶ [defined] ──▶ [active] ──▶ [down] ──▶ [gone]
//!                    │            ▲  └────────┼──────────▲
//!                    │            └───────────┘          │
//!                    └───────────────────────────────────┘
//! ```
//! Only the observer moves it, by what it saw of libvirt or of QEMU's process. `gone` is the end: a
//! launcher runs one virtual machine in its life.

/// Where the domain is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum VmState {
    /// libvirt has not heard of it yet.
    #[default]
    Absent,
    /// Defined, never started.
    Defined,
    /// It has a QEMU process.
    Active,
    /// Its QEMU process ended.
    Down,
    /// It was there, and libvirt has forgotten it.
    Gone,
}

/// What a look at the domain shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// No such domain.
    Nothing,
    /// A domain without a QEMU process.
    Off,
    /// A domain with one.
    On,
}

impl VmState {
    /// The state after a look.
    #[must_use]
    pub fn observe(self, sight: Sight) -> VmState {
        match (self, sight) {
            (VmState::Gone, _) => VmState::Gone,
            (VmState::Absent, Sight::Nothing) => VmState::Absent,
            (_, Sight::Nothing) => VmState::Gone,
            (_, Sight::On) => VmState::Active,
            (VmState::Absent | VmState::Defined, Sight::Off) => VmState::Defined,
            (VmState::Active | VmState::Down, Sight::Off) => VmState::Down,
        }
    }

    /// The state once QEMU's process is known to have ended.
    #[must_use]
    pub fn observe_qemu_ended(self) -> VmState {
        match self {
            VmState::Active => VmState::Down,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn life(sights: &[Sight]) -> VmState {
        sights
            .iter()
            .fold(VmState::Absent, |state, sight| state.observe(*sight))
    }

    #[test]
    fn a_life() {
        use Sight::{Nothing, Off, On};
        assert_eq!(life(&[Nothing]), VmState::Absent);
        assert_eq!(life(&[Nothing, Off]), VmState::Defined);
        assert_eq!(life(&[Off, On]), VmState::Active);
        assert_eq!(life(&[Off, On, Off]), VmState::Down);
        assert_eq!(
            life(&[Off, On, Off, On]),
            VmState::Active,
            "a start repeated"
        );
        assert_eq!(life(&[Off, On, Off, Nothing]), VmState::Gone);
        assert_eq!(
            life(&[Off, Nothing, Off]),
            VmState::Gone,
            "the end is the end"
        );
        assert_eq!(VmState::Active.observe_qemu_ended(), VmState::Down);
        assert_eq!(VmState::Defined.observe_qemu_ended(), VmState::Defined);
    }

    proptest! {
        #[test]
        fn absent_never_comes_back(sights in proptest::collection::vec(
            prop_oneof![Just(Sight::Nothing), Just(Sight::Off), Just(Sight::On)], 0..10))
        {
            let mut state = VmState::Absent;
            for sight in sights {
                let next = state.observe(sight);
                prop_assert!(next != VmState::Absent || state == VmState::Absent);
                state = next;
            }
        }
    }
}
