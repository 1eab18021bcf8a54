use super::job_start_result;
use crate::jobs::{BackupError, BackupId, BackupRequest, Checkpoint, ExportRequest};
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_state::Role;

/// Starts a backup, unless it is running already. virt-handler reads its result in the domain's metadata.
pub(in crate::manager) async fn start_backup(
    vm: &VmContext,
    request: BackupRequest,
) -> Result<CommandSuccess, OpError> {
    // The migration may still fail, and the source take the VM back.
    if vm.role() == Role::Target {
        return Err(BackupError::MigrationRuns.into());
    }
    job_start_result::command_result(vm.jobs.start_backup(request).await?)
}

/// Serves the running backup to the export server.
pub(in crate::manager) async fn export_backup(
    vm: &VmContext,
    request: ExportRequest,
) -> Result<CommandSuccess, OpError> {
    vm.jobs.export_backup(request).await?;
    Ok(CommandSuccess::Changed)
}

/// Ends the running backup.
pub(in crate::manager) async fn abort_backup(
    vm: &VmContext,
    id: &BackupId,
) -> Result<CommandSuccess, OpError> {
    vm.jobs.abort_backup(id).await?;
    Ok(CommandSuccess::Changed)
}

/// Makes the checkpoint of an earlier backup known to libvirt.
pub(in crate::manager) async fn redefine_checkpoint(
    vm: &VmContext,
    checkpoint: &Checkpoint,
) -> Result<CommandSuccess, OpError> {
    vm.jobs.redefine_checkpoint(checkpoint).await?;
    Ok(CommandSuccess::Changed)
}
