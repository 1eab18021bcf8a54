//! Admits a freeze only if the VM does not migrate, and passes freeze and thaw to the
//! [`Freezer`](crate::guest_agent::Freezer).

use crate::guest_agent::{Change, FreezeError, FreezeRequest};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_phase_and_migration_role::Role;

/// Freezes the guest's file systems, unless the VM migrates: the guest would arrive frozen, and the timer that thaws it
/// would not be on the target.
pub(in crate::manager) async fn freeze(
    vm: &VmContext,
    request: FreezeRequest,
) -> Result<CommandSuccess, CommandError> {
    if vm.role() != Role::NoMigration {
        return Err(CommandError::FreezeDuringMigration);
    }
    command_result(vm.freezer.freeze(request).await)
}

/// Thaws the guest's file systems.
pub(in crate::manager) async fn unfreeze(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    command_result(vm.freezer.thaw().await)
}

fn command_result(change: Result<Change, FreezeError>) -> Result<CommandSuccess, CommandError> {
    match change {
        Ok(Change::Done) => Ok(CommandSuccess::Changed),
        Ok(Change::None | Change::NothingToFreeze) => Ok(CommandSuccess::Unchanged),
        Err(FreezeError::Agent(error)) => Err(error.into()),
        Err(error) => Err(CommandError::Freeze(error)),
    }
}
