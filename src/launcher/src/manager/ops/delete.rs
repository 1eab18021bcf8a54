use std::future::Future;

use libvirt::Undefine;

use super::kill::INTERRUPTED;
use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, Vm};

/// Makes libvirt forget the domain. UEFI variables stay: they live on a volume of their own.
///
/// `settled` resolves when no other operation runs: one that was just defining the domain would
/// leave it behind.
pub(in crate::manager) async fn delete(
    vm: &Vm,
    settled: impl Future<Output = ()>,
) -> Result<(), OpError> {
    let _ = tokio::time::timeout(INTERRUPTED, settled).await;
    let Some(guest) = vm.lookup().await? else {
        return Ok(());
    };
    let undefined = vm.on(&guest, "undefining the domain", COMMAND, |guest| {
        guest.undefine(Undefine::KEEP)
    });
    match undefined.await {
        Err(OpError::Libvirt(error)) if error.is_no_domain() => Ok(()),
        other => other,
    }
}
