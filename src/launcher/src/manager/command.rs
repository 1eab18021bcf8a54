//! The commands, and how each is carried out.
//!
//! A new command is a variant, a row in `command_rules` and a function in `ops`.

use std::sync::Arc;

use kubevirt_api::vmi::Vmi;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::command_rules::Kind;
use super::command_success::CommandSuccess;
use super::error::OpError;
use super::ops;
use super::sync_request::SyncRequest;
use super::vm_context::VmContext;
use crate::agent::FreezeRequest;
use crate::jobs::{
    BackupId, BackupRequest, Checkpoint, ExportRequest, MemoryDumpRequest, MigrationJob,
};

/// A command for the VM.
#[derive(Debug, Clone)]
pub enum Command {
    /// Start or change the VM as its VMI says.
    Sync(Arc<SyncRequest>),
    /// Prepare this pod for the VM, which arrives by a migration.
    SyncMigrationTarget(Arc<SyncRequest>),
    /// Let the guest notice that it has moved.
    FinalizeMigration(Arc<SyncRequest>),
    /// Stop the processors.
    Pause,
    /// Resume the processors.
    Unpause,
    /// Give the VM the processors that its VMI asks for.
    SetCpus(Arc<SyncRequest>),
    /// Give the VM the memory that its VMI asks for.
    SetMemory(Box<Vmi>),
    /// Attach the SR-IOV interfaces that the VMI has and the VM has not.
    AttachHostDevices(Arc<SyncRequest>),
    /// Press the reset button.
    Reset,
    /// Ask the guest to reboot.
    SoftReboot(Box<Vmi>),
    /// Ask the guest to power off.
    Shutdown,
    /// Freeze the guest's file systems.
    Freeze(FreezeRequest),
    /// Thaw them.
    Unfreeze,
    /// Write the guest's memory to a file.
    MemoryDump(MemoryDumpRequest),
    /// Move the VM to another pod.
    Migrate(Arc<MigrationJob>),
    /// Let it stay.
    CancelMigration,
    /// Start a backup of the disks.
    StartBackup(Box<BackupRequest>),
    /// Serve a running backup to the export server.
    ExportBackup(Box<ExportRequest>),
    /// End a running backup.
    AbortBackup(BackupId),
    /// Make the checkpoint of an earlier backup known to libvirt.
    RedefineCheckpoint(Checkpoint),
    /// End QEMU.
    Kill,
    /// Make libvirt forget the domain.
    Delete,
}

/// What a running command is given.
pub(super) struct CommandContext {
    /// Cancelled when the command is to stop at its next safe point.
    pub(super) interrupted: CancellationToken,
    /// How many commands run that do not end the VM.
    pub(super) ordinary: watch::Receiver<usize>,
}

impl Command {
    /// A sync.
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

    /// Whether both commands can share one answer.
    pub(super) fn is_equal(&self, other: &Command) -> bool {
        match (self, other) {
            (Command::Sync(one), Command::Sync(other))
            | (Command::SyncMigrationTarget(one), Command::SyncMigrationTarget(other))
            | (Command::FinalizeMigration(one), Command::FinalizeMigration(other))
            | (Command::SetCpus(one), Command::SetCpus(other))
            | (Command::AttachHostDevices(one), Command::AttachHostDevices(other)) => {
                one.is_equal(other)
            }
            (Command::SetMemory(one), Command::SetMemory(other)) => {
                one.raw_json() == other.raw_json()
            }
            (Command::Migrate(one), Command::Migrate(other)) => one.uid() == other.uid(),
            (Command::StartBackup(one), Command::StartBackup(other)) => one == other,
            (Command::ExportBackup(one), Command::ExportBackup(other)) => one == other,
            (Command::AbortBackup(one), Command::AbortBackup(other)) => one == other,
            (Command::RedefineCheckpoint(one), Command::RedefineCheckpoint(other)) => one == other,
            (one, other) => one.kind() == other.kind(),
        }
    }

    /// The UID of the VMI that a sync is about.
    pub(super) fn boot(&self) -> Option<&str> {
        match self {
            Command::Sync(request) => Some(request.vmi.uid()),
            _ => None,
        }
    }

    /// Carries the command out.
    pub(super) async fn run(
        self,
        vm: &VmContext,
        context: CommandContext,
    ) -> Result<CommandSuccess, OpError> {
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
            Command::AttachHostDevices(request) => ops::attach_host_devices(vm, &request).await,
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
    /// Resolves when no command runs that does not end the VM.
    async fn others_ended(mut self) {
        // Cannot fail: the driver holds the sender and outlives its operations.
        let _ = self.ordinary.wait_for(|running| *running == 0).await;
    }
}
