//! Why an operation failed, and the text of the response.

use std::io;
use std::path::PathBuf;

use domain::convert::ConvertError;
use domain::hotplug_ports::HotplugPortsError;
use domain::reconcile::MemoryChangeError;
use hook_host::{HookError, printable};

use super::command_refusal::CommandRefusal;
use super::device_change_error::DeviceChangeError;
use crate::agent::FreezeError;
use crate::blocking::NoAnswer;
use crate::boot::boot_resources::BootResourceError;
use crate::boot::migration_sockets::MigrationSocketError;
use crate::jobs::{BackupError, CheckpointError, JobKind};
use crate::libvirt_client::{CallError, SnapshotError, response_text};
use crate::qmp_answer::QmpError;

/// The most bytes of a hook's name, and of the path of its change.
const MAX_NAME: usize = 1024;

/// An operation failed.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// libvirt refused.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// libvirt refused a change that a hook made to the domain.
    #[error(transparent)]
    RefusedHookChange(Box<RefusedHookChange>),
    /// A call took too long.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The request was refused without being carried out.
    #[error(transparent)]
    Refused(#[from] CommandRefusal),
    /// The domain does not exist.
    #[error("Domain not found.")]
    NotFound,
    /// A job of another kind runs.
    #[error("{0} is in progress; try again when it has ended")]
    JobRuns(JobKind),
    /// A migration is executed once.
    #[error(
        "migration job {uid} already executed, finished at {end}, failed: {failed}, abortStatus: {abort_status}"
    )]
    MigrationExecuted {
        /// The migration's UID.
        uid: String,
        /// When it ended.
        end: String,
        /// Whether it failed.
        failed: bool,
        /// How far its cancellation came.
        abort_status: String,
    },
    /// The VMI cannot become a domain.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// Ports for hotplug cannot be reserved.
    #[error(transparent)]
    HotplugPorts(#[from] HotplugPortsError),
    /// A hook vetoed, or failed.
    #[error(transparent)]
    Hook(Box<HookError>),
    /// The sockets of a migration could not be put in place.
    #[error(transparent)]
    MigrationSockets(#[from] MigrationSocketError),
    /// libvirt's hook could not find the launcher.
    #[error("listening for libvirt's migration hook on {path}: {source}", path = path.display())]
    HookSocket {
        /// The socket.
        path: PathBuf,
        /// Why it cannot be made.
        source: io::Error,
    },
    /// A hotplugged disk is not in the target's pod.
    #[error("{0}")]
    HotplugDisks(String),
    /// KubeVirt's functional tests hold the preparation up.
    #[error(
        "Blocking preparation of migration target in order to satisfy a functional test condition"
    )]
    ForcedWait,
    /// Disks or cloud-init could not be put in place.
    #[error(transparent)]
    BootResources(#[from] BootResourceError),
    /// The request is about another VM.
    #[error("this launcher runs {ours}, not {theirs}")]
    OtherVm {
        /// The domain of this launcher.
        ours: String,
        /// The domain of the VMI in the request.
        theirs: String,
    },
    /// A device of the running VM could not be changed.
    #[error(transparent)]
    DeviceChange(#[from] DeviceChangeError),
    /// The sizes of the guest's memory do not fit.
    #[error(transparent)]
    MemoryChange(#[from] MemoryChangeError),
    /// An error under a prefix by which KubeVirt's users search.
    #[error("{prefix}: {reason}")]
    Prefixed {
        /// The prefix, without a colon.
        prefix: &'static str,
        /// The error.
        reason: Box<OpError>,
    },
    /// Interfaces are being attached as host devices.
    #[error("hot-plug host-devices is in progress")]
    HostDevicesInProgress,
    /// libvirt's description of the domain is not understood.
    #[error("{0}")]
    Description(String),
    /// QEMU's monitor cannot be asked.
    #[error(transparent)]
    Qmp(#[from] QmpError),
    /// The guest has neither an agent nor ACPI, one of which a reboot needs.
    #[error("VMI neither have the agent connected nor the ACPI feature enabled")]
    NoWayToReboot,
    /// The VM is on its way from or to this pod.
    #[error("failed to freeze VMI, VMI is currently during migration")]
    FreezeDuringMigration,
    /// The guest would arrive frozen, and nobody would thaw it.
    #[error(
        "cannot migrate VMI while its guest is frozen; unfreeze it, or wait for the end of the freeze's time limit"
    )]
    MigrationOfFrozenGuest,
    /// The guest's file systems could not be frozen or thawed.
    #[error(transparent)]
    Freeze(FreezeError),
    /// A backup could not be started or aborted.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A checkpoint could not be redefined.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// QEMU outlives SIGKILL.
    #[error(transparent)]
    Ending(CallError),
    /// The operation ended without a result.
    #[error(
        "the operation failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Fault,
}

/// A hook's change of the domain that libvirt refused.
#[derive(Debug, thiserror::Error)]
#[error("{error} (hook {hook} changed {path})")]
pub struct RefusedHookChange {
    /// What libvirt says.
    pub error: libvirt::Error,
    /// The hook that last changed the refused element.
    pub hook: String,
    /// The path of the element.
    pub path: String,
}

impl From<HookError> for OpError {
    fn from(error: HookError) -> OpError {
        OpError::Hook(Box::new(error))
    }
}

impl From<SnapshotError> for OpError {
    fn from(error: SnapshotError) -> OpError {
        match error {
            SnapshotError::Libvirt(error) => error.into(),
            SnapshotError::NoAnswer(error) => error.into(),
            SnapshotError::Spec { .. } => OpError::Description(error.to_string()),
        }
    }
}

impl From<CallError> for OpError {
    fn from(error: CallError) -> OpError {
        match error {
            CallError::Libvirt(error) => OpError::Libvirt(error),
            CallError::NoAnswer(error) => OpError::NoAnswer(error),
            error @ CallError::NotEnded { .. } => OpError::Ending(error),
        }
    }
}

impl OpError {
    /// libvirt's "no such domain", for operations that must name the domain.
    pub fn no_domain(domain: &str) -> OpError {
        CallError::no_domain(domain).into()
    }

    /// The same error, naming the hook and the path that `named_in` finds in libvirt's refusal, if there is one.
    pub(super) fn naming_hook(
        self,
        named_in: impl Fn(&str) -> Option<(String, String)>,
    ) -> OpError {
        let OpError::Libvirt(error) = self else {
            return self;
        };
        match named_in(&error.message) {
            Some((hook, path)) => OpError::RefusedHookChange(Box::new(RefusedHookChange {
                error,
                hook: printable(&hook, MAX_NAME),
                path: printable(&path, MAX_NAME),
            })),
            None => OpError::Libvirt(error),
        }
    }

    /// Whether the operation was not (or no longer) wanted.
    pub fn is_refusal(&self) -> bool {
        matches!(self, OpError::Refused(_))
    }

    /// Whether it was refused because the launcher ends.
    pub(super) fn is_exiting(&self) -> bool {
        matches!(self, OpError::Refused(CommandRefusal::Exiting))
    }

    /// The text of a `Response`: libvirt's errors in the form KubeVirt's users search for.
    pub fn message(&self) -> String {
        match self {
            OpError::Libvirt(error) => response_text(error),
            OpError::RefusedHookChange(refused) => {
                let RefusedHookChange { error, hook, path } = &**refused;
                format!("{} (hook {hook} changed {path})", response_text(error))
            }
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libvirt quotes the values that it refuses, and hooks and the VM's owner write them.
    #[test]
    fn errors_of_libvirt_are_printable() {
        let unprintable = ('\0'..=char::MAX).filter(|c| !hook_host::is_printable(*c));
        let groups: Vec<char> = unprintable.collect();
        for group in groups.chunks(100) {
            let text: String = group.iter().collect();
            let error = || {
                OpError::Libvirt(libvirt::Error {
                    code: 27,
                    domain: 20,
                    message: format!("XML error: unknown model '{text}'"),
                })
            };
            let named =
                error().naming_hook(|_| Some(("painter".to_owned(), format!("/domain/{text}"))));
            for error in [error(), named] {
                for printed in [error.message(), error.to_string()] {
                    assert!(printed.chars().all(hook_host::is_printable), "{printed}");
                }
            }
        }
    }

    #[test]
    fn response_has_libvirts_code_and_text() {
        let error = OpError::no_domain("default_vm1");
        assert!(
            error
                .message()
                .starts_with("LibvirtError(Code=42, Domain=10,")
        );
        assert_eq!(OpError::NotFound.message(), "Domain not found.");
    }
}
