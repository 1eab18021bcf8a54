//! Resumes the vCPUs of a paused VM, and sets the guest's clock.

use libvirt::DomainState;

use crate::guest_agent::guest_clock_sync::GuestClockSync;
use crate::libvirt_client::COMMAND;
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;

/// Resumes the vCPUs, and starts the task that sets the guest's clock. A VM that is not paused stays as it is.
pub(in crate::manager) async fn unpause(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    let state = vm.client.state_of(&domain).await?.state;
    // Also for a running VM, because libvirt may still carry out a pause that has timed out.
    vm.driver_state().paused_by_user = false;
    if state != DomainState::Paused {
        return Ok(CommandSuccess::Unchanged);
    }
    let unpaused = vm
        .client
        .on(&domain, "unpausing the domain", COMMAND, |domain| {
            domain.resume()
        });
    if let Err(error) = unpaused.await {
        if error.is_definite() {
            vm.driver_state().paused_by_user = true;
        }
        return Err(error.into());
    }
    vm.driver_state().guest_clock = Some(GuestClockSync::start(vm.client.clone(), domain));
    Ok(CommandSuccess::Changed)
}
