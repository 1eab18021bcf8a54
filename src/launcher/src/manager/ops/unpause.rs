use libvirt::DomainState;

use super::guest_time;
use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, Vm};

/// Lets the processors run again. A VM that is not paused is left as it is.
pub(in crate::manager) async fn unpause(vm: &Vm) -> Result<(), OpError> {
    let guest = vm.lookup().await?.ok_or(OpError::NotFound)?;
    if vm.state_of(&guest).await?.state != DomainState::Paused {
        tracing::info!("the VM is not paused, nothing to unpause");
        return Ok(());
    }
    vm.on(&guest, "unpausing the domain", COMMAND, |guest| {
        guest.resume()
    })
    .await?;
    vm.memory().paused_by_user = false;
    tokio::spawn(guest_time::set(guest));
    Ok(())
}
