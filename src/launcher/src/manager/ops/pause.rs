use libvirt::DomainState;

use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, Vm};

/// Stops the processors. A VM that is not running is left as it is.
pub(in crate::manager) async fn pause(vm: &Vm) -> Result<(), OpError> {
    let guest = vm.lookup().await?.ok_or(OpError::NotFound)?;
    if vm.state_of(&guest).await?.state != DomainState::Running {
        tracing::info!("the VM is not running, nothing to pause");
        return Ok(());
    }
    vm.on(&guest, "pausing the domain", COMMAND, |guest| {
        guest.suspend()
    })
    .await?;
    vm.memory().paused_by_user = true;
    Ok(())
}
