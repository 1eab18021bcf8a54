//! Errors of jobs.

use std::path::PathBuf;
use std::time::Duration;

use domain::domain_spec_from_xml::ParseError;
use domain::migration::MigrationXmlError;
use hook_host::HookError;

use super::abort_reason::AbortReason;
use crate::blocking::NoAnswer;

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// A call of libvirt failed.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// The connection to a migration's target ended after the migration had failed, according to libvirt's log.
    #[error("{error}; before that: {reason}")]
    TargetLost {
        /// The error of libvirt's call.
        error: libvirt::Error,
        /// The first error in libvirt's log.
        reason: String,
    },
    /// A call timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The domain does not exist.
    #[error("there is no domain {0}")]
    NoDomain(String),
    /// The directory of a memory dump cannot be written to.
    #[error("{path} is not a writable directory ({reason}); is its volume attached?")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The file system's error.
        reason: String,
    },
    /// The job was aborted.
    #[error("aborted, since {0}")]
    Aborted(AbortReason),
    /// The job made no progress for this long.
    #[error("nothing was written for {0:?}; is the storage reachable?")]
    NoProgress(Duration),
    /// virt-handler cancelled the migration before libvirt started it.
    #[error("Live migration has been aborted")]
    Cancelled,
    /// An annotation of KubeVirt's functional tests lets the migration fail.
    #[error("Failed migration to satisfy functional test condition")]
    FailureByTestAnnotation,
    /// The domain's XML for the target cannot be created.
    #[error(transparent)]
    MigrationXml(#[from] MigrationXmlError),
    /// The XML of the domain could not be parsed.
    #[error("reading libvirt's description of the domain: {0}")]
    DomainDescription(#[from] ParseError),
    /// A hook vetoed the migration, or failed.
    #[error(transparent)]
    Hook(#[from] Box<HookError>),
    /// The guest has not released its SR-IOV interfaces, which cannot migrate, within this time.
    #[error(
        "the guest has not released its SR-IOV interfaces within {0:?}; does it support hot-unplug?"
    )]
    HostDevicesNotReleased(Duration),
    /// The migration failed when the guest, or a part of its memory, may have been on the target already.
    #[error(
        "{0}; the guest is not resumed here, because the target has it, or a part of it, or may have it"
    )]
    GuestMayHaveMoved(Box<JobError>),
    /// The job's task or thread panicked or could not be started.
    #[error(
        "the job failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Internal,
}
