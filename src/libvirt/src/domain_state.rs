//! The state of a domain, as `virDomainGetState` tells it.

use std::fmt;

/// A domain's state and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What the domain is doing.
    pub state: DomainState,
    /// Why.
    pub reason: Reason,
}

impl State {
    /// A state with its reason.
    pub const fn new(state: DomainState, reason: Reason) -> Self {
        State { state, reason }
    }

    /// From the two integers of `virDomainGetState`.
    pub fn decode(state: i32, reason: i32) -> Self {
        let state = DomainState::decode(state);
        State {
            state,
            reason: Reason::decode(state, reason),
        }
    }

    /// No QEMU process belongs to the domain.
    pub fn is_down(&self) -> bool {
        matches!(
            self.state,
            DomainState::NoState | DomainState::Shutoff | DomainState::Crashed
        )
    }

    /// The guest is stopped for a migration: for the switch to the target, or because the migration would not end.
    pub fn is_stopped_for_migration(&self) -> bool {
        *self == State::new(DomainState::Paused, Reason::Migration)
    }

    /// The domain of a migration's target, to which the guest is still to come.
    pub fn waits_for_guest(&self) -> bool {
        let waits = matches!(
            self.reason,
            Reason::Migration | Reason::StartingUp | Reason::Unknown
        );
        self.state == DomainState::Paused && waits
    }

    /// The guest is stopped for a migration after which the target may run it, or has begun to.
    pub fn may_run_on_target(&self) -> bool {
        let is_left = matches!(
            self.reason,
            Reason::Migration | Reason::Postcopy | Reason::PostcopyFailed
        );
        self.state == DomainState::Paused && is_left
    }

    /// There is a QEMU process, whatever its guest is doing.
    pub fn is_active(&self) -> bool {
        !self.is_down()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}", self.state, self.reason)
    }
}

/// `virDomainState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DomainState {
    /// libvirt knows of none.
    NoState,
    /// The guest runs.
    Running,
    /// The guest is blocked on a resource (Xen only).
    Blocked,
    /// The guest is paused.
    Paused,
    /// The guest is being shut down.
    Shutdown,
    /// There is no QEMU process.
    Shutoff,
    /// The guest crashed.
    Crashed,
    /// The guest suspended itself to memory.
    PmSuspended,
}

impl DomainState {
    fn decode(raw: i32) -> Self {
        match raw {
            1 => Self::Running,
            2 => Self::Blocked,
            3 => Self::Paused,
            4 => Self::Shutdown,
            5 => Self::Shutoff,
            6 => Self::Crashed,
            7 => Self::PmSuspended,
            _ => Self::NoState,
        }
    }
}

/// Why a domain is in its state: libvirt's per-state reasons in one list.
///
/// `Debug` gives KubeVirt's spelling (`StateChangeReason`) for the reasons that KubeVirt has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are libvirt's and say it all")]
pub enum Reason {
    Unknown,
    // Running
    Booted,
    Restored,
    Unpaused,
    MigrationCanceled,
    SaveCanceled,
    Wakeup,
    // Paused, or Shutdown by a user
    User,
    Migration,
    Save,
    Dump,
    IOError,
    Watchdog,
    ShuttingDown,
    Snapshot,
    StartingUp,
    Postcopy,
    PostcopyFailed,
    ApiError,
    // Shutoff
    Shutdown,
    Destroyed,
    Crashed,
    Migrated,
    Saved,
    Failed,
    FromSnapshot,
    Daemon,
    // Crashed
    Panicked,
}

impl Reason {
    fn decode(state: DomainState, raw: i32) -> Self {
        let known: &[Reason] = match state {
            DomainState::Running => &RUNNING,
            DomainState::Paused => &PAUSED,
            DomainState::Shutdown => &SHUTDOWN,
            DomainState::Shutoff => &SHUTOFF,
            DomainState::Crashed => &CRASHED,
            DomainState::NoState | DomainState::Blocked | DomainState::PmSuspended => &[],
        };
        usize::try_from(raw)
            .ok()
            .and_then(|index| known.get(index))
            .copied()
            .unwrap_or(Reason::Unknown)
    }
}

// Each list is in the order of libvirt's enum: the index is the number on the wire.
const RUNNING: [Reason; 12] = [
    Reason::Unknown,
    Reason::Booted,
    Reason::Migrated,
    Reason::Restored,
    Reason::FromSnapshot,
    Reason::Unpaused,
    Reason::MigrationCanceled,
    Reason::SaveCanceled,
    Reason::Wakeup,
    Reason::Crashed,
    Reason::Postcopy,
    Reason::PostcopyFailed,
];
const PAUSED: [Reason; 15] = [
    Reason::Unknown,
    Reason::User,
    Reason::Migration,
    Reason::Save,
    Reason::Dump,
    Reason::IOError,
    Reason::Watchdog,
    Reason::FromSnapshot,
    Reason::ShuttingDown,
    Reason::Snapshot,
    Reason::Crashed,
    Reason::StartingUp,
    Reason::Postcopy,
    Reason::PostcopyFailed,
    Reason::ApiError,
];
const SHUTDOWN: [Reason; 2] = [Reason::Unknown, Reason::User];
const SHUTOFF: [Reason; 9] = [
    Reason::Unknown,
    Reason::Shutdown,
    Reason::Destroyed,
    Reason::Crashed,
    Reason::Migrated,
    Reason::Saved,
    Reason::Failed,
    Reason::FromSnapshot,
    Reason::Daemon,
];
const CRASHED: [Reason; 2] = [Reason::Unknown, Reason::Panicked];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_depends_on_its_state() {
        assert_eq!(
            State::decode(3, 1),
            State::new(DomainState::Paused, Reason::User)
        );
        assert_eq!(
            State::decode(5, 1),
            State::new(DomainState::Shutoff, Reason::Shutdown)
        );
        assert_eq!(
            State::decode(5, 3),
            State::new(DomainState::Shutoff, Reason::Crashed)
        );
        assert_eq!(
            State::decode(3, 11),
            State::new(DomainState::Paused, Reason::StartingUp)
        );
    }

    #[test]
    fn numbers_of_a_newer_libvirt_are_unknown() {
        assert_eq!(
            State::decode(5, 99),
            State::new(DomainState::Shutoff, Reason::Unknown)
        );
        assert_eq!(
            State::decode(99, -1),
            State::new(DomainState::NoState, Reason::Unknown)
        );
    }
}
