//! Starts and ends memory dumps, migrations and backups, which [`crate::jobs`] runs.

use super::require_own_vm;
use crate::jobs::{
    BackupError, BackupId, BackupRequest, Checkpoint, ExportRequest, JobStart, MemoryDumpRequest,
    MigrationJob,
};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_phase_and_migration_role::Role;

/// Starts a memory dump, unless a dump is running or the last one had the same file. virt-handler reads its result in
/// the domain's metadata.
pub(in crate::manager) fn start_memory_dump(
    vm: &VmContext,
    request: MemoryDumpRequest,
) -> Result<CommandSuccess, CommandError> {
    command_result(vm.jobs.start_memory_dump(request))
}

/// Starts a migration to another pod, unless it is running already. virt-handler reads its result in the domain's
/// metadata.
///
/// A frozen guest is not migrated: it would arrive frozen, and the timer that thaws it would not be on the target. The
/// guest is not thawed either, since a snapshot may rely on the freeze.
pub(in crate::manager) async fn migrate(
    vm: &VmContext,
    job: MigrationJob,
) -> Result<CommandSuccess, CommandError> {
    require_own_vm(vm, job.vmi())?;
    if vm.role() == Role::NoMigration && vm.freezer.keeps_frozen().await {
        return Err(CommandError::MigrationOfFrozenGuest);
    }
    vm.driver_state().guest_clock = None;
    command_result(vm.jobs.start_migration(job))
}

/// Cancels the running migration, if there is one; returns at once.
pub(in crate::manager) fn cancel_migration(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    vm.jobs.cancel_migration();
    Ok(CommandSuccess::Changed)
}

/// Starts a backup, unless it is running already. virt-handler reads its result in the domain's metadata.
pub(in crate::manager) async fn start_backup(
    vm: &VmContext,
    request: BackupRequest,
) -> Result<CommandSuccess, CommandError> {
    // The migration may still fail, and the source take the VM back.
    if vm.role() == Role::Target {
        return Err(BackupError::MigrationRuns.into());
    }
    command_result(vm.jobs.start_backup(request).await?)
}

/// Serves the running backup to the export server.
pub(in crate::manager) async fn export_backup(
    vm: &VmContext,
    request: ExportRequest,
) -> Result<CommandSuccess, CommandError> {
    vm.jobs.export_backup(request).await?;
    Ok(CommandSuccess::Changed)
}

/// Ends the running backup.
pub(in crate::manager) async fn abort_backup(
    vm: &VmContext,
    id: &BackupId,
) -> Result<CommandSuccess, CommandError> {
    vm.jobs.abort_backup(id).await?;
    Ok(CommandSuccess::Changed)
}

/// Makes the checkpoint of an earlier backup known to libvirt.
pub(in crate::manager) async fn redefine_checkpoint(
    vm: &VmContext,
    checkpoint: &Checkpoint,
) -> Result<CommandSuccess, CommandError> {
    vm.jobs.redefine_checkpoint(checkpoint).await?;
    Ok(CommandSuccess::Changed)
}

/// Converts the result of a job's start to that of its command.
fn command_result(start: JobStart) -> Result<CommandSuccess, CommandError> {
    match start {
        JobStart::Started => Ok(CommandSuccess::Changed),
        JobStart::AlreadyRunning | JobStart::AlreadyDone => Ok(CommandSuccess::Unchanged),
        JobStart::AlreadyExecuted(record) => Err(CommandError::MigrationExecuted {
            uid: record.uid,
            end: record.end_timestamp.unwrap_or_default(),
            failed: record.failed,
            abort_status: record.abort_status,
        }),
        JobStart::Busy(running) => Err(CommandError::OtherJobRuns(running)),
    }
}
