//! Errors of jobs.

use std::path::PathBuf;
use std::time::Duration;

use domain::migration::MigrationXmlError;
use domain::parse_domain_xml::ParseError;
use hook_host::HookError;

use super::abort_reason::AbortReason;
use crate::blocking::NoAnswer;

/// A job failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// libvirt refused, or could not do it.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// The connection to a migration's target has ended, and the migration had failed before, as libvirt's log says.
    #[error("{error}; before that: {reason}")]
    TargetLost {
        /// What libvirt's call returned.
        error: libvirt::Error,
        /// The first error in the log.
        reason: String,
    },
    /// A call took too long.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// There is no domain to work on.
    #[error("there is no domain {0}")]
    NoDomain(String),
    /// The directory of the file cannot be used.
    #[error("{path} is not a writable directory ({reason}); is its volume attached?")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The job was asked to end.
    #[error("aborted, since {0}")]
    Aborted(AbortReason),
    /// No progress for longer than the stall timeout.
    #[error("nothing was written for {0:?}; is the storage reachable?")]
    Stalled(Duration),
    /// virt-handler cancelled the migration before libvirt began it.
    #[error("Live migration has been aborted")]
    Cancelled,
    /// The VMI's annotation says so.
    #[error("Failed migration to satisfy functional test condition")]
    ForcedFailure,
    /// The domain cannot be described to the target.
    #[error(transparent)]
    MigrationXml(#[from] MigrationXmlError),
    /// libvirt's description of the domain is not understood.
    #[error("reading libvirt's description of the domain: {0}")]
    Description(#[from] ParseError),
    /// A hook vetoes the migration, or failed.
    #[error(transparent)]
    Hook(#[from] Box<HookError>),
    /// SR-IOV interfaces cannot migrate.
    #[error(
        "the guest has not released its SR-IOV interfaces within {0:?}; does it support hot-unplug?"
    )]
    HostDevicesNotReleased(Duration),
    /// The migration failed after the guest, or a part of it, may have moved.
    #[error(
        "{0}; the guest is not resumed here, because the target has it, or a part of it, or may have it"
    )]
    GuestMayHaveMoved(Box<JobError>),
    /// The job's task or thread ended without a result.
    #[error(
        "the job failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Fault,
}
