use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::poll_immediate;

use crate::jobs::AbortReason;
use crate::libvirt_client::CallError;
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;
use crate::vm_events::VmEvent;

/// How long an interrupted operation is waited for.
pub(super) const INTERRUPTED: Duration = Duration::from_secs(5);

/// How long a job is waited for whose QEMU has ended.
const JOB_ENDED: Duration = Duration::from_secs(2);

/// Ends QEMU. Does nothing if the VM does not exist or does not run.
///
/// `others_ended` resolves when no other command runs. A command that starts the VM may be past its last safe point, so
/// QEMU is ended again after that command.
pub(in crate::manager) async fn kill(
    vm: &VmContext,
    others_ended: impl Future<Output = ()>,
) -> Result<CommandSuccess, OpError> {
    vm.driver_state().guest_time = None;
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::Destroying);
    // Before QEMU ends, so that the record says that this was no accident.
    let runs_job = vm.jobs.running().borrow().is_some();
    vm.jobs.abort(AbortReason::Kill);
    let mut others_ended = pin!(others_ended);
    let is_alone = poll_immediate(&mut others_ended).await.is_some();
    let mut has_run = vm.client.destroy().await?;
    if !is_alone {
        if tokio::time::timeout(INTERRUPTED, others_ended)
            .await
            .is_err()
        {
            tracing::warn!("an interrupted command goes on longer than {INTERRUPTED:?}");
        }
        has_run |= match vm.client.destroy().await {
            Err(CallError::NoAnswer(error)) if has_run => {
                tracing::warn!(reason = %error, "QEMU has ended, and libvirt's daemon hangs");
                true
            }
            result => result?,
        };
    }
    // A delete may follow, and with it the last notification.
    if runs_job
        && tokio::time::timeout(JOB_ENDED, vm.jobs.all_published())
            .await
            .is_err()
    {
        tracing::warn!("a job goes on after QEMU has ended");
    }
    if !has_run {
        let _ = vm.events.send(VmEvent::QemuMissing);
        return Ok(CommandSuccess::AlreadySo);
    }
    Ok(CommandSuccess::Changed)
}
