//! Deletes the VM: undefines its domain. Unless the VM is active, waits for the final notification, at most 1 s.

use std::future::Future;
use std::time::Duration;

use libvirt::{Domain, UndefineOptions};

use super::kill::INTERRUPT_TIMEOUT;
use crate::jobs::AbortReason;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::manager::{CommandSuccess, Phase};

/// How long the response waits for virt-handler to accept the last notification.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Undefines the domain. UEFI variables are kept: they are on a volume of their own.
///
/// `others_ended` resolves when no other command runs. It is awaited because a command that is defining the domain
/// would leave it defined. A domain that libvirt is starting is not undefined: it would run without a definition, and
/// changes of its devices would be refused.
pub(in crate::manager) async fn delete(
    vm: &VmContext,
    others_ended: impl Future<Output = ()>,
) -> Result<CommandSuccess, CommandError> {
    let _ = tokio::time::timeout(INTERRUPT_TIMEOUT, others_ended).await;
    if vm.driver_state().create_call.strong_count() > 0 {
        return Err(CommandError::DeleteDuringStart);
    }
    // libvirt undefines no domain while a job changes it.
    vm.jobs.end(AbortReason::Kill).await;
    let undefine = |domain: &dyn Domain| domain.undefine(UndefineOptions::KEEP);
    let undefined = vm.client.end("undefining the domain", undefine).await?;
    let start_was_tried = {
        let mut state = vm.driver_state();
        state.deleted = true;
        state.start_was_tried
    };
    let Some(()) = undefined else {
        if start_was_tried && *vm.phase.borrow() == Phase::Absent {
            vm.deleted_before_definition.notify_one();
        }
        return Ok(CommandSuccess::Unchanged);
    };
    // A domain that still runs has only become transient; it is gone when it ends.
    if *vm.phase.borrow() != Phase::Active {
        let accepted = tokio::time::timeout(ACCEPT_TIMEOUT, final_notification_accepted(vm)).await;
        if accepted.is_err() {
            tracing::debug!("virt-handler has not accepted that the domain is gone");
        }
    }
    Ok(CommandSuccess::Changed)
}

/// Waits until virt-handler has accepted the notification that the domain is gone. This comes before the response,
/// after which virt-handler closes its notification socket.
async fn final_notification_accepted(vm: &VmContext) {
    let mut phases = vm.phase.clone();
    // Cannot fail: the observer holds the sender and outlives the commands.
    let _ = phases.wait_for(|phase| *phase == Phase::Gone).await;
    vm.notifier.flush(ACCEPT_TIMEOUT).await;
}
