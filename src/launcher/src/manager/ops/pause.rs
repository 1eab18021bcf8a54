//! Pauses a running VM's vCPUs until virt-handler asks to resume them: a sync leaves them paused.

use libvirt::DomainState;

use crate::libvirt_client::COMMAND;
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;

/// Pauses the vCPUs. A VM that is not running stays as it is.
///
/// `paused_by_user` is set before the call, because libvirt may still pause the domain after the call has timed out.
pub(in crate::manager) async fn pause(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    vm.driver_state().guest_clock = None;
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    if vm.client.state_of(&domain).await?.state != DomainState::Running {
        return Ok(CommandSuccess::Unchanged);
    }
    vm.driver_state().paused_by_user = true;
    let paused = vm
        .client
        .on(&domain, "pausing the domain", COMMAND, |domain| {
            domain.suspend()
        });
    if let Err(error) = paused.await {
        if error.is_definite() {
            vm.driver_state().paused_by_user = false;
        }
        return Err(error.into());
    }
    Ok(CommandSuccess::Changed)
}
