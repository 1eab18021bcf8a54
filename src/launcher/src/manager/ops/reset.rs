//! Hard reset: the guest cannot prepare for it.

use crate::libvirt_client::COMMAND;
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;

/// Resets the VM without the guest's cooperation.
pub(in crate::manager) async fn reset(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    let domain = vm
        .client
        .lookup()
        .await?
        .ok_or_else(|| CommandError::no_domain(&vm.identity.domain))?;
    vm.client
        .on(&domain, "resetting the domain", COMMAND, |domain| {
            domain.reset()
        })
        .await?;
    Ok(CommandSuccess::Changed)
}
