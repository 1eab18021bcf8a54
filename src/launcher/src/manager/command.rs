//! The commands, and the operation that runs each of them.
//!
//! A new command needs a variant of [`Command`], a row in `command_rules` and a function in `ops`.

use std::sync::Arc;

use kubevirt_api::vmi::Vmi;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::command_error::CommandError;
use super::command_rules::Kind;
use super::command_success::CommandSuccess;
use super::ops;
use super::sync_request::{SyncRequest, is_equal_vmi};
use super::vm_context::VmContext;
use crate::guest_agent::FreezeRequest;
use crate::jobs::{
    BackupId, BackupRequest, Checkpoint, ExportRequest, MemoryDumpRequest, MigrationJob,
};

/// A command for the VM.
#[derive(Debug, Clone)]
pub enum Command {
    /// Start the VM, or change the running VM to match its VMI.
    Sync(Arc<SyncRequest>),
    /// Prepare this pod as the target of the VM's migration.
    SyncMigrationTarget(Arc<SyncRequest>),
    /// After a migration, refresh network links and set the guest's clock.
    FinalizeMigration(Arc<SyncRequest>),
    /// Pause the vCPUs.
    Pause,
    /// Resume the vCPUs.
    Unpause,
    /// Set the number of vCPUs to that of the VMI.
    SetCpus(Arc<SyncRequest>),
    /// Set the guest's memory to that of the VMI.
    SetMemory(Box<Vmi>),
    /// Attach the SR-IOV interfaces of the VMI that the running VM lacks.
    AttachHostDevices(Arc<SyncRequest>),
    /// Reset the VM without the guest's cooperation.
    Reset,
    /// Ask the guest to reboot.
    SoftReboot(Box<Vmi>),
    /// Ask the guest to power off.
    Shutdown,
    /// Freeze the guest's file systems.
    Freeze(FreezeRequest),
    /// Thaw the guest's file systems.
    Unfreeze,
    /// Write the guest's memory to a file.
    MemoryDump(MemoryDumpRequest),
    /// Migrate the VM to another pod.
    Migrate(Arc<MigrationJob>),
    /// Cancel the running migration.
    CancelMigration,
    /// Start a backup of the disks.
    StartBackup(Box<BackupRequest>),
    /// Serve a running backup to the export server.
    ExportBackup(Box<ExportRequest>),
    /// End a running backup.
    AbortBackup(BackupId),
    /// Make the checkpoint of an earlier backup known to libvirt.
    RedefineCheckpoint(Checkpoint),
    /// Kill QEMU.
    Kill,
    /// Undefine the domain.
    Delete,
}

/// How the driver controls a running command.
pub(super) struct CommandContext {
    /// Cancelled when the command is to stop at its next safe point.
    pub(super) interrupted: CancellationToken,
    /// The number of running commands other than kill and delete.
    pub(super) other_commands: watch::Receiver<usize>,
}

impl Command {
    /// A sync with this request.
    pub fn sync(request: SyncRequest) -> Command {
        Command::Sync(Arc::new(request))
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Command::Sync(_) => Kind::Sync,
            Command::SyncMigrationTarget(_) => Kind::SyncMigrationTarget,
            Command::FinalizeMigration(_) => Kind::FinalizeMigration,
            Command::Pause => Kind::Pause,
            Command::Unpause => Kind::Unpause,
            Command::SetCpus(_) => Kind::SetCpus,
            Command::SetMemory(_) => Kind::SetMemory,
            Command::AttachHostDevices(_) => Kind::AttachHostDevices,
            Command::Reset => Kind::Reset,
            Command::SoftReboot(_) => Kind::SoftReboot,
            Command::Shutdown => Kind::Shutdown,
            Command::Freeze(_) => Kind::Freeze,
            Command::Unfreeze => Kind::Unfreeze,
            Command::MemoryDump(_) => Kind::MemoryDump,
            Command::Migrate(_) => Kind::Migrate,
            Command::CancelMigration => Kind::CancelMigration,
            Command::StartBackup(_) => Kind::StartBackup,
            Command::ExportBackup(_) => Kind::ExportBackup,
            Command::AbortBackup(_) => Kind::AbortBackup,
            Command::RedefineCheckpoint(_) => Kind::RedefineCheckpoint,
            Command::Kill => Kind::Kill,
            Command::Delete => Kind::Delete,
        }
    }

    /// Whether both commands ask for the same, so that one answer serves both.
    pub(super) fn is_equal(&self, other: &Command) -> bool {
        match (self, other) {
            (Command::Sync(left), Command::Sync(right))
            | (Command::SyncMigrationTarget(left), Command::SyncMigrationTarget(right))
            | (Command::FinalizeMigration(left), Command::FinalizeMigration(right))
            | (Command::SetCpus(left), Command::SetCpus(right))
            | (Command::AttachHostDevices(left), Command::AttachHostDevices(right)) => {
                left.is_equal(right)
            }
            (Command::SetMemory(left), Command::SetMemory(right)) => is_equal_vmi(left, right),
            (Command::Freeze(left), Command::Freeze(right)) => left == right,
            (Command::MemoryDump(left), Command::MemoryDump(right)) => left == right,
            (Command::Migrate(left), Command::Migrate(right)) => left.uid() == right.uid(),
            (Command::StartBackup(left), Command::StartBackup(right)) => left == right,
            (Command::ExportBackup(left), Command::ExportBackup(right)) => left == right,
            (Command::AbortBackup(left), Command::AbortBackup(right)) => left == right,
            (Command::RedefineCheckpoint(left), Command::RedefineCheckpoint(right)) => {
                left == right
            }
            (left, right) => left.kind() == right.kind(),
        }
    }

    /// The UID of the VMI, if the command is a sync.
    pub(super) fn synced_vmi_uid(&self) -> Option<&str> {
        match self {
            Command::Sync(request) => Some(request.vmi.uid()),
            _ => None,
        }
    }

    /// Runs the command's operation.
    pub(super) async fn run(
        self,
        vm: &VmContext,
        context: CommandContext,
    ) -> Result<CommandSuccess, CommandError> {
        match self {
            Command::Sync(request) => ops::sync(vm, &request, &context.interrupted).await,
            Command::SyncMigrationTarget(request) => {
                ops::sync_migration_target(vm, &request, &context.interrupted).await
            }
            Command::FinalizeMigration(request) => ops::finalize_migration(vm, &request).await,
            Command::Pause => ops::pause(vm).await,
            Command::Unpause => ops::unpause(vm).await,
            Command::SetCpus(request) => ops::set_cpus(vm, &request).await,
            Command::SetMemory(vmi) => ops::set_memory(vm, &vmi).await,
            Command::AttachHostDevices(request) => ops::attach_sriov_interfaces(vm, &request).await,
            Command::Reset => ops::reset(vm).await,
            Command::SoftReboot(vmi) => ops::soft_reboot(vm, &vmi).await,
            Command::Shutdown => ops::shutdown(vm).await,
            Command::Freeze(request) => ops::freeze(vm, request).await,
            Command::Unfreeze => ops::unfreeze(vm).await,
            Command::MemoryDump(request) => ops::start_memory_dump(vm, request),
            Command::Migrate(job) => ops::migrate(vm, Arc::unwrap_or_clone(job)).await,
            Command::CancelMigration => ops::cancel_migration(vm),
            Command::StartBackup(request) => ops::start_backup(vm, *request).await,
            Command::ExportBackup(request) => ops::export_backup(vm, *request).await,
            Command::AbortBackup(id) => ops::abort_backup(vm, &id).await,
            Command::RedefineCheckpoint(checkpoint) => {
                ops::redefine_checkpoint(vm, &checkpoint).await
            }
            Command::Kill => ops::kill(vm, context.others_ended()).await,
            Command::Delete => ops::delete(vm, context.others_ended()).await,
        }
    }
}

impl CommandContext {
    /// Resolves when no command other than kill and delete runs.
    async fn others_ended(mut self) {
        // Cannot fail: the driver holds the sender and outlives its operations.
        let _ = self.other_commands.wait_for(|count| *count == 0).await;
    }
}
