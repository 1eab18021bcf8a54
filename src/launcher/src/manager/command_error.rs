//! Errors of commands, and their text in a `Response`.

use std::io;
use std::path::PathBuf;

use domain::convert::ConvertError;
use domain::hotplug_ports::HotplugPortsError;
use domain::reconcile::MemoryChangeError;
use hook_host::HookError;

use super::device_change_error::{DeviceChangeError, RefusedHookChange};
use crate::blocking::NoAnswer;
use crate::guest_agent::FreezeError;
use crate::jobs::{BackupError, CheckpointError, JobKind};
use crate::libvirt_client::{CallError, SnapshotError, response_text};
use crate::qmp_answer::QmpError;
use crate::vm_boot::boot_resources::BootResourceError;
use crate::vm_boot::migration_target_sockets::MigrationTargetSocketError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A call of libvirt failed.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// libvirt refused a change that a hook made to the domain.
    #[error(transparent)]
    RefusedHookChange(Box<RefusedHookChange>),
    /// A call timed out.
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
    OtherJobRuns(JobKind),
    /// The migration has been executed already, and a migration is executed only once.
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
        /// KubeVirt's abort status of the migration.
        abort_status: String,
    },
    /// The VMI cannot be converted to a domain.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// Root ports for hotplug cannot be reserved.
    #[error(transparent)]
    HotplugPorts(#[from] HotplugPortsError),
    /// A hook vetoed, or failed.
    #[error(transparent)]
    Hook(Box<HookError>),
    /// The sockets of a migration to this pod could not be created.
    #[error(transparent)]
    MigrationTargetSockets(#[from] MigrationTargetSocketError),
    /// The socket for libvirt's migration hook could not be created.
    #[error("listening for libvirt's migration hook on {path}: {source}", path = path.display())]
    HookSocket {
        /// The socket.
        path: PathBuf,
        /// Why creating it failed.
        source: io::Error,
    },
    /// A hotplugged disk is not in the target's pod.
    #[error("{0}")]
    HotplugDisks(String),
    /// An annotation of KubeVirt's functional tests blocks the preparation.
    #[error(
        "Blocking preparation of migration target in order to satisfy a functional test condition"
    )]
    BlockedByTestAnnotation,
    /// Disks, cloud-init or other resources of the boot could not be prepared.
    #[error(transparent)]
    BootResources(#[from] BootResourceError),
    /// The request is about another VM.
    #[error("this launcher runs {own_domain}, not {requested_domain}")]
    OtherVm {
        /// The domain of this launcher.
        own_domain: String,
        /// The domain of the VMI in the request.
        requested_domain: String,
    },
    /// A device of the running VM could not be changed.
    #[error(transparent)]
    DeviceChange(#[from] DeviceChangeError),
    /// The guest's memory cannot be changed to the size of the VMI.
    #[error(transparent)]
    MemoryChange(#[from] MemoryChangeError),
    /// An error with a prefix that KubeVirt's users search for.
    #[error("{prefix}: {reason}")]
    Prefixed {
        /// The prefix, without a colon.
        prefix: &'static str,
        /// The error.
        reason: Box<CommandError>,
    },
    /// Interfaces are being attached as host devices.
    #[error("hot-plug host-devices is in progress")]
    HostDevicesInProgress,
    /// The XML of the domain could not be parsed.
    #[error("{0}")]
    DomainDescription(String),
    /// A query of QEMU's monitor failed.
    #[error(transparent)]
    Qmp(#[from] QmpError),
    /// The guest has neither an agent nor ACPI; a reboot needs one of them.
    #[error("VMI neither have the agent connected nor the ACPI feature enabled")]
    NoWayToReboot,
    /// The guest cannot be frozen while the VM migrates from or to this pod.
    #[error("failed to freeze VMI, VMI is currently during migration")]
    FreezeDuringMigration,
    /// A frozen guest is not migrated: it would arrive frozen, and nothing would thaw it.
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
    /// QEMU is still running after SIGKILL.
    #[error(transparent)]
    QemuNotEnded(CallError),
    /// A command that may be starting QEMU has not ended.
    #[error("a command that may be starting QEMU goes on; kill the virtual machine again")]
    KillGoesOn,
    /// libvirt's call that starts the VM has not returned.
    #[error(
        "the virtual machine is being started, and is not deleted meanwhile; kill it first, or try again"
    )]
    DeleteDuringStart,
    /// The command's task panicked.
    #[error(
        "the operation failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Internal,
}

impl From<HookError> for CommandError {
    fn from(error: HookError) -> CommandError {
        CommandError::Hook(Box::new(error))
    }
}

impl From<SnapshotError> for CommandError {
    fn from(error: SnapshotError) -> CommandError {
        match error {
            SnapshotError::Libvirt(error) => error.into(),
            SnapshotError::NoAnswer(error) => error.into(),
            SnapshotError::Spec { .. } => CommandError::DomainDescription(error.to_string()),
        }
    }
}

impl From<CallError> for CommandError {
    fn from(error: CallError) -> CommandError {
        match error {
            CallError::Libvirt(error) => CommandError::Libvirt(error),
            CallError::NoAnswer(error) => CommandError::NoAnswer(error),
            error @ CallError::NotEnded { .. } => CommandError::QemuNotEnded(error),
        }
    }
}

impl CommandError {
    /// libvirt's "no such domain", for operations that must name the domain.
    pub fn no_domain(domain: &str) -> CommandError {
        CallError::no_domain(domain).into()
    }

    /// Adds the hook and the path that `hook_of_refusal` finds in libvirt's message, if it finds them.
    pub(super) fn with_hook(
        self,
        hook_of_refusal: impl Fn(&str) -> Option<(String, String)>,
    ) -> CommandError {
        let CommandError::Libvirt(error) = self else {
            return self;
        };
        match hook_of_refusal(&error.message) {
            Some((hook, path)) => {
                let refused = RefusedHookChange::new(error, &hook, &path);
                CommandError::RefusedHookChange(Box::new(refused))
            }
            None => CommandError::Libvirt(error),
        }
    }

    /// Whether the command was refused, or interrupted by a kill, a delete or the launcher's exit.
    pub fn is_refusal(&self) -> bool {
        matches!(self, CommandError::Refused(_))
    }

    /// Whether the command was refused because the launcher is exiting.
    pub(super) fn is_exiting(&self) -> bool {
        matches!(self, CommandError::Refused(CommandRefusal::Exiting))
    }

    /// The text of a `Response`, with libvirt's errors in the form that KubeVirt's users search for.
    pub fn message(&self) -> String {
        match self {
            CommandError::Libvirt(error) => response_text(error),
            CommandError::RefusedHookChange(refused) => refused.message(),
            other => other.to_string(),
        }
    }
}

/// Why a command was refused without being run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// A kill or delete was requested while this command ran or waited.
    #[error("the virtual machine is being ended")]
    Ending,
    /// The launcher is exiting.
    #[error("the launcher is exiting")]
    Exiting,
    /// The domain is gone, and a launcher runs only one VM.
    #[error("the virtual machine has ended, and its launcher is exiting")]
    Gone,
    /// virt-handler has not accepted the notification of the start, so its request relies on an older one.
    #[error(
        "the virtual machine has just been started, and the notification of it is on its way to virt-handler; \
         it is not deleted"
    )]
    StartUnreported,
    /// The VM is to arrive by a migration: to start it here would run it twice.
    #[error(
        "this launcher waits for the virtual machine to arrive by a migration, and does not start it; if the migration \
         has failed, its pod is deleted"
    )]
    AwaitsMigration,
    /// The guest is not in this pod yet.
    #[error(
        "the virtual machine has not arrived in this pod yet; try again when its migration has ended"
    )]
    NotArrived,
    /// The VM is being migrated to another pod.
    #[error(
        "the virtual machine is being migrated to another pod; try again when the migration has ended"
    )]
    MigratesAway,
    /// The same command was requested with other arguments before, and has not ended.
    #[error(
        "the same request with other arguments is being carried out; try again when it has ended"
    )]
    OtherArguments,
    /// The queue is full: it holds far more requests than virt-handler has in flight.
    #[error("too many requests are waiting; try again")]
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_has_libvirts_code_and_text() {
        let error = CommandError::no_domain("default_vm1");
        assert!(
            error
                .message()
                .starts_with("LibvirtError(Code=42, Domain=10,")
        );
        assert_eq!(CommandError::NotFound.message(), "Domain not found.");
    }
}
