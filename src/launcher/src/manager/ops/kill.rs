use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use libvirt::{Destroy, Guest};

use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, Vm};

/// How long an interrupted operation is waited for.
pub(super) const INTERRUPTED: Duration = Duration::from_secs(5);

/// Ends QEMU. A VM that is not there or not running is ended already.
///
/// `settled` resolves when no other operation runs. One that was just starting the VM may get past
/// its last safe point, so there is a second look once it has.
pub(in crate::manager) async fn kill(
    vm: &Vm,
    settled: impl Future<Output = ()>,
) -> Result<(), OpError> {
    destroy(vm).await?;
    if tokio::time::timeout(INTERRUPTED, settled).await.is_err() {
        tracing::warn!("an interrupted operation goes on longer than {INTERRUPTED:?}");
    }
    destroy(vm).await
}

async fn destroy(vm: &Vm) -> Result<(), OpError> {
    let Some(guest) = vm.lookup().await? else {
        return Ok(());
    };
    match vm.state_of(&guest).await {
        Ok(state) if state.is_down() => return Ok(()),
        Ok(_) => {}
        Err(error) => return gone_is_fine(Err(error)),
    }
    let graceful = end(vm, &guest, Destroy::Graceful).await;
    match gone_is_fine(graceful) {
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::warn!(reason = %error, "QEMU did not end by SIGTERM, killing it");
            gone_is_fine(end(vm, &guest, Destroy::Forceful).await)
        }
    }
}

async fn end(vm: &Vm, guest: &Arc<dyn Guest>, how: Destroy) -> Result<(), OpError> {
    vm.on(guest, "ending the domain", COMMAND, move |guest| {
        guest.destroy(how)
    })
    .await
}

fn gone_is_fine(result: Result<(), OpError>) -> Result<(), OpError> {
    match result {
        Err(OpError::Libvirt(error)) if error.is_no_domain() || error.is_operation_invalid() => {
            Ok(())
        }
        other => other,
    }
}
