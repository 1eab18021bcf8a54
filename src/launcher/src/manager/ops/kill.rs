//! Aborts the running job and kills QEMU, a second time if an interrupted command may have started it again.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::poll_immediate;
use tokio::time::{Instant, timeout, timeout_at};

use crate::jobs::AbortReason;
use crate::libvirt_client::{CallError, DomainEnd};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;
use crate::vm_events::VmEvent;

/// How long to wait for interrupted commands.
pub(super) const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for a job after its QEMU has ended.
const JOB_END_TIMEOUT: Duration = Duration::from_secs(2);

/// When the response says that the VM has not ended, if a command that starts it goes on. virt-handler waits 20 s for
/// the response, and then repeats the kill.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(19);

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
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    let end = timeout_at(deadline, end_qemu(vm, others_ended)).await;
    let end = end.map_err(|_| CommandError::KillGoesOn)??;
    if end == DomainEnd::Killed {
        report_sigkill(vm);
    }
    // A delete may follow, after which nothing is published: the job's result must be published before.
    if runs_job
        && timeout(JOB_END_TIMEOUT, vm.jobs.all_published())
            .await
            .is_err()
    {
        tracing::warn!("a job goes on after QEMU has ended");
    }
    if end == DomainEnd::WasDown {
        let _ = vm.events.send(VmEvent::QemuMissing);
        return Ok(CommandSuccess::Unchanged);
    }
    Ok(CommandSuccess::Changed)
}

/// Ends QEMU, and once more after the other commands if there are any.
async fn end_qemu(
    vm: &VmContext,
    others_ended: impl Future<Output = ()>,
) -> Result<DomainEnd, CommandError> {
    let mut others_ended = pin!(others_ended);
    let is_alone = poll_immediate(&mut others_ended).await.is_some();
    let end = vm.client.destroy().await?;
    if is_alone {
        return Ok(end);
    }
    if timeout(INTERRUPT_TIMEOUT, others_ended).await.is_err() {
        tracing::warn!("an interrupted command goes on longer than {INTERRUPT_TIMEOUT:?}");
    }
    match vm.client.destroy().await {
        Err(CallError::NoAnswer(error)) if end != DomainEnd::WasDown => {
            tracing::warn!(reason = %error, "QEMU has ended, and libvirt's daemon hangs");
            Ok(end)
        }
        second => Ok(end.max(second?)),
    }
}

/// Tells the VM's owner what a SIGKILL has lost.
fn report_sigkill(vm: &VmContext) {
    let warning = Warning {
        reason: "QemuKilled",
        message: "QEMU has not ended by SIGTERM in time, and was killed: what it had yet to write to its storage is lost. \
                  The next incremental backup of its disks may have to be a full one, and the TPM may have an older state"
            .to_owned(),
    };
    tracing::warn!("{}", warning.message);
    vm.notifier.warning(&warning);
}
