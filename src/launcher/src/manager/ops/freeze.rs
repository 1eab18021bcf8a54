use crate::agent::{Change, FreezeError, FreezeRequest};
use crate::manager::CommandEffect;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_state::Role;

/// Freezes the guest's file systems, unless the VM migrates: the guest would arrive frozen, and the timer of its thaw
/// would stay behind.
pub(in crate::manager) async fn freeze(
    vm: &VmContext,
    request: FreezeRequest,
) -> Result<CommandEffect, OpError> {
    if vm.role() != Role::Boot {
        return Err(OpError::FreezeDuringMigration);
    }
    answer(vm.freezer.freeze(request).await)
}

/// Thaws the guest's file systems.
pub(in crate::manager) async fn unfreeze(vm: &VmContext) -> Result<CommandEffect, OpError> {
    answer(vm.freezer.thaw().await)
}

fn answer(change: Result<Change, FreezeError>) -> Result<CommandEffect, OpError> {
    match change {
        Ok(Change::Done) => Ok(CommandEffect::Changed),
        Ok(Change::None | Change::NothingToFreeze) => Ok(CommandEffect::AlreadySo),
        Err(FreezeError::Agent(error)) => Err(error.into()),
        Err(error) => Err(OpError::Freeze(error)),
    }
}
