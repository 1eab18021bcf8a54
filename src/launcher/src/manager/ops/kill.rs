//! Aborts the running job and kills QEMU, a second time if an interrupted command may have started it again.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::poll_immediate;

use crate::jobs::AbortReason;
use crate::libvirt_client::CallError;
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::vm_events::VmEvent;

/// How long to wait for interrupted commands.
pub(super) const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for a job after its QEMU has ended.
const JOB_END_TIMEOUT: Duration = Duration::from_secs(2);

/// Kills QEMU. Does nothing if the VM does not exist or does not run.
///
/// `others_ended` resolves when no other command runs. A command that starts the VM may be past its last safe point, so
/// QEMU is ended again after that command.
pub(in crate::manager) async fn kill(
    vm: &VmContext,
    others_ended: impl Future<Output = ()>,
) -> Result<CommandSuccess, CommandError> {
    vm.driver_state().guest_clock = None;
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::Destroying);
    // Before QEMU ends, so that the job records a kill and not a crash.
    let runs_job = vm.jobs.running().borrow().is_some();
    vm.jobs.abort(AbortReason::Kill);
    let mut others_ended = pin!(others_ended);
    let is_alone = poll_immediate(&mut others_ended).await.is_some();
    let mut has_run = vm.client.destroy().await?;
    if !is_alone {
        if tokio::time::timeout(INTERRUPT_TIMEOUT, others_ended)
            .await
            .is_err()
        {
            tracing::warn!("an interrupted command goes on longer than {INTERRUPT_TIMEOUT:?}");
        }
        has_run |= match vm.client.destroy().await {
            Err(CallError::NoAnswer(error)) if has_run => {
                tracing::warn!(reason = %error, "QEMU has ended, and libvirt's daemon hangs");
                true
            }
            result => result?,
        };
    }
    // A delete may follow, after which nothing is published: the job's result must be published before.
    if runs_job
        && tokio::time::timeout(JOB_END_TIMEOUT, vm.jobs.all_published())
            .await
            .is_err()
    {
        tracing::warn!("a job goes on after QEMU has ended");
    }
    if !has_run {
        let _ = vm.events.send(VmEvent::QemuMissing);
        return Ok(CommandSuccess::Unchanged);
    }
    Ok(CommandSuccess::Changed)
}
