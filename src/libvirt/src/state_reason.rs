//! Why a domain is in its state.

use virt_sys as sys;

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
