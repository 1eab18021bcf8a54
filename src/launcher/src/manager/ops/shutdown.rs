use libvirt::{DomainState, ShutdownMode};

use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, Vm};

/// Asks the guest to power off. Nothing to ask is no error.
pub(in crate::manager) async fn shutdown(vm: &Vm) -> Result<(), OpError> {
    vm.guest_asked.notify_one();
    let Some(guest) = vm.lookup().await? else {
        return Ok(());
    };
    let state = vm.state_of(&guest).await?.state;
    if !matches!(state, DomainState::Running | DomainState::Paused) {
        return Ok(());
    }
    vm.on(&guest, "asking the guest to power off", COMMAND, |guest| {
        guest.shutdown(ShutdownMode::Default)
    })
    .await?;
    vm.metadata.set_deletion_timestamp();
    Ok(())
}
