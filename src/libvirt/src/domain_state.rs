//! The state of a domain, as `virDomainGetState` reports it.

use std::fmt;

use virt_sys as sys;

/// A domain's state and the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What the domain is doing.
    pub state: DomainState,
    /// Why the domain is in that state.
    pub reason: Reason,
}

impl State {
    /// A state with its reason.
    pub const fn new(state: DomainState, reason: Reason) -> Self {
        State { state, reason }
    }

    /// The state for the two numbers that `virDomainGetState` returns.
    pub fn decode(state: i32, reason: i32) -> Self {
        let state = DomainState::decode(state);
        State {
            state,
            reason: state.decode_reason(reason),
        }
    }

    /// No QEMU process belongs to the domain.
    pub fn is_down(&self) -> bool {
        matches!(
            self.state,
            DomainState::NoState | DomainState::Shutoff | DomainState::Crashed
        )
    }

    /// The guest is paused for a migration: for the switchover to the target, or because the migration would not
    /// converge.
    pub fn is_stopped_for_migration(&self) -> bool {
        *self == State::new(DomainState::Paused, Reason::Migration)
    }

    /// The domain is that of a migration's target, and the guest has not arrived yet.
    pub fn is_before_arrival(&self) -> bool {
        let is_before_arrival = matches!(
            self.reason,
            Reason::Migration | Reason::StartingUp | Reason::Unknown
        );
        self.state == DomainState::Paused && is_before_arrival
    }

    /// The guest is paused by a migration, and may be running on the target.
    pub fn may_run_on_target(&self) -> bool {
        let is_after_switchover = matches!(
            self.reason,
            Reason::Migration | Reason::Postcopy | Reason::PostcopyFailed
        );
        self.state == DomainState::Paused && is_after_switchover
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
    /// libvirt reports no state, or one of a newer libvirt.
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
        match raw.cast_unsigned() {
            sys::VIR_DOMAIN_RUNNING => Self::Running,
            sys::VIR_DOMAIN_BLOCKED => Self::Blocked,
            sys::VIR_DOMAIN_PAUSED => Self::Paused,
            sys::VIR_DOMAIN_SHUTDOWN => Self::Shutdown,
            sys::VIR_DOMAIN_SHUTOFF => Self::Shutoff,
            sys::VIR_DOMAIN_CRASHED => Self::Crashed,
            sys::VIR_DOMAIN_PMSUSPENDED => Self::PmSuspended,
            _ => Self::NoState,
        }
    }

    fn decode_reason(self, raw: i32) -> Reason {
        let raw = raw.cast_unsigned();
        let reason = match self {
            Self::Running => running_reason(raw),
            Self::Paused => paused_reason(raw),
            Self::Shutdown => shutdown_reason(raw),
            Self::Shutoff => shutoff_reason(raw),
            Self::Crashed => crashed_reason(raw),
            Self::NoState | Self::Blocked | Self::PmSuspended => None,
        };
        reason.unwrap_or(Reason::Unknown)
    }
}

/// Why a domain is in its state: the reasons of all states in one list.
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

// Each state has its own numbers of reasons. `None` for those of a newer libvirt.

pub(crate) fn running_reason(raw: sys::virDomainRunningReason) -> Option<Reason> {
    Some(match raw {
        sys::VIR_DOMAIN_RUNNING_BOOTED => Reason::Booted,
        sys::VIR_DOMAIN_RUNNING_MIGRATED => Reason::Migrated,
        sys::VIR_DOMAIN_RUNNING_RESTORED => Reason::Restored,
        sys::VIR_DOMAIN_RUNNING_FROM_SNAPSHOT => Reason::FromSnapshot,
        sys::VIR_DOMAIN_RUNNING_UNPAUSED => Reason::Unpaused,
        sys::VIR_DOMAIN_RUNNING_MIGRATION_CANCELED => Reason::MigrationCanceled,
        sys::VIR_DOMAIN_RUNNING_SAVE_CANCELED => Reason::SaveCanceled,
        sys::VIR_DOMAIN_RUNNING_WAKEUP => Reason::Wakeup,
        sys::VIR_DOMAIN_RUNNING_CRASHED => Reason::Crashed,
        sys::VIR_DOMAIN_RUNNING_POSTCOPY => Reason::Postcopy,
        sys::VIR_DOMAIN_RUNNING_POSTCOPY_FAILED => Reason::PostcopyFailed,
        _ => return None,
    })
}

pub(crate) fn paused_reason(raw: sys::virDomainPausedReason) -> Option<Reason> {
    Some(match raw {
        sys::VIR_DOMAIN_PAUSED_USER => Reason::User,
        sys::VIR_DOMAIN_PAUSED_MIGRATION => Reason::Migration,
        sys::VIR_DOMAIN_PAUSED_SAVE => Reason::Save,
        sys::VIR_DOMAIN_PAUSED_DUMP => Reason::Dump,
        sys::VIR_DOMAIN_PAUSED_IOERROR => Reason::IOError,
        sys::VIR_DOMAIN_PAUSED_WATCHDOG => Reason::Watchdog,
        sys::VIR_DOMAIN_PAUSED_FROM_SNAPSHOT => Reason::FromSnapshot,
        sys::VIR_DOMAIN_PAUSED_SHUTTING_DOWN => Reason::ShuttingDown,
        sys::VIR_DOMAIN_PAUSED_SNAPSHOT => Reason::Snapshot,
        sys::VIR_DOMAIN_PAUSED_CRASHED => Reason::Crashed,
        sys::VIR_DOMAIN_PAUSED_STARTING_UP => Reason::StartingUp,
        sys::VIR_DOMAIN_PAUSED_POSTCOPY => Reason::Postcopy,
        sys::VIR_DOMAIN_PAUSED_POSTCOPY_FAILED => Reason::PostcopyFailed,
        sys::VIR_DOMAIN_PAUSED_API_ERROR => Reason::ApiError,
        _ => return None,
    })
}

pub(crate) fn shutdown_reason(raw: sys::virDomainShutdownReason) -> Option<Reason> {
    Some(match raw {
        sys::VIR_DOMAIN_SHUTDOWN_USER => Reason::User,
        _ => return None,
    })
}

pub(crate) fn shutoff_reason(raw: sys::virDomainShutoffReason) -> Option<Reason> {
    Some(match raw {
        sys::VIR_DOMAIN_SHUTOFF_SHUTDOWN => Reason::Shutdown,
        sys::VIR_DOMAIN_SHUTOFF_DESTROYED => Reason::Destroyed,
        sys::VIR_DOMAIN_SHUTOFF_CRASHED => Reason::Crashed,
        sys::VIR_DOMAIN_SHUTOFF_MIGRATED => Reason::Migrated,
        sys::VIR_DOMAIN_SHUTOFF_SAVED => Reason::Saved,
        sys::VIR_DOMAIN_SHUTOFF_FAILED => Reason::Failed,
        sys::VIR_DOMAIN_SHUTOFF_FROM_SNAPSHOT => Reason::FromSnapshot,
        sys::VIR_DOMAIN_SHUTOFF_DAEMON => Reason::Daemon,
        _ => return None,
    })
}

pub(crate) fn crashed_reason(raw: sys::virDomainCrashedReason) -> Option<Reason> {
    Some(match raw {
        sys::VIR_DOMAIN_CRASHED_PANICKED => Reason::Panicked,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_decoded_by_its_state() {
        // Numbers as libvirt sends them.
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
    fn unknown_numbers_of_a_newer_libvirt_are_decoded() {
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
