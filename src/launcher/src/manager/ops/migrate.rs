use super::{job_start_result, require_own_vm};
use crate::jobs::MigrationJob;
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_state::Role;

/// Starts a migration to another pod, unless it is running already. virt-handler reads its result in the domain's
/// metadata.
///
/// A frozen guest is not migrated: it would arrive frozen, and the timer that thaws it would not be on the target. The
/// guest is not thawed either, since a snapshot may rely on the freeze.
pub(in crate::manager) async fn migrate(
    vm: &VmContext,
    job: MigrationJob,
) -> Result<CommandSuccess, OpError> {
    require_own_vm(vm, job.vmi())?;
    if vm.role() == Role::Boot && vm.freezer.keeps_frozen().await {
        return Err(OpError::MigrationOfFrozenGuest);
    }
    vm.driver_state().guest_time = None;
    job_start_result::command_result(vm.jobs.start_migration(job))
}

/// Cancels the running migration, if there is one; returns at once.
pub(in crate::manager) fn cancel_migration(vm: &VmContext) -> Result<CommandSuccess, OpError> {
    vm.jobs.cancel_migration();
    Ok(CommandSuccess::Changed)
}
