use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, Vm};

/// Presses the reset button.
pub(in crate::manager) async fn reset(vm: &Vm) -> Result<(), OpError> {
    let guest = vm
        .lookup()
        .await?
        .ok_or_else(|| OpError::no_domain(&vm.identity.domain))?;
    vm.on(&guest, "resetting the domain", COMMAND, |guest| {
        guest.reset()
    })
    .await
}
