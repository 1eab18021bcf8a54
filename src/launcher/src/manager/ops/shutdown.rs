//! Asks the guest to power off.

use std::sync::Arc;

use libvirt::{Domain, DomainState, Reason, ShutdownMode, State};
use tokio::time::Instant;

use crate::guest_agent::{AGENT_TIMEOUT, shorten};
use crate::jobs::AbortReason;
use crate::libvirt_client::{AGENT, COMMAND, CallError, POWER_BUTTON};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::vm_events::VmEvent;

/// Asks the guest to power off: through its agent if that answers, otherwise by the power button. Does nothing if the
/// VM does not run.
///
/// A VM that its user has paused is resumed first, and a frozen guest is thawed: neither can power off, and both would
/// be destroyed at the end of the grace period while their file systems are in use.
pub(in crate::manager) async fn shutdown(vm: &VmContext) -> Result<CommandSuccess, CommandError> {
    vm.power_off_requested.notify_one();
    vm.driver_state().guest_clock = None;
    // A guest that is paused for a job cannot react, and libvirt refuses the call while the job runs.
    vm.jobs.end(AbortReason::Shutdown).await;
    let Some(domain) = vm.client.lookup().await? else {
        return Ok(CommandSuccess::Unchanged);
    };
    let state = vm.client.state_of(&domain).await?;
    if !is_up(state) {
        return Ok(CommandSuccess::Unchanged);
    }
    if state.state == DomainState::Paused && state.reason == Reason::User {
        resume(vm, &domain).await?;
    }
    if let Err(error) = power_off(vm, &domain).await {
        // The guest may have powered off by itself meanwhile.
        return match vm.client.state_of(&domain).await {
            Ok(state) if is_up(state) => Err(error.into()),
            Ok(_) => Ok(CommandSuccess::Unchanged),
            Err(other) if other.is_no_domain() => Ok(CommandSuccess::Unchanged),
            Err(_) => Err(error.into()),
        };
    }
    vm.metadata.set_deletion_timestamp();
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::PowerOffRequested);
    Ok(CommandSuccess::Changed)
}

fn is_up(state: State) -> bool {
    matches!(state.state, DomainState::Running | DomainState::Paused)
}

async fn resume(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    tracing::info!(
        "the VM is paused and is to end: it is resumed, so that its guest can power off"
    );
    vm.driver_state().paused_by_user = false;
    vm.client
        .on(domain, "resuming the domain", COMMAND, |domain| {
            domain.resume()
        })
        .await
}

async fn power_off(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    const CALL_NAME: &str = "asking the guest to power off";
    // The agent has this time for both, so that the power button is pressed before virt-handler gives up.
    let deadline = Instant::now() + AGENT_TIMEOUT;
    if vm.freezer.thaw_if_frozen(AGENT_TIMEOUT).await {
        let class = AGENT.within(deadline.saturating_duration_since(Instant::now()));
        let through_agent =
            |domain: &dyn Domain| domain.shutdown(ShutdownMode::Agent).map_err(shorten);
        let Err(error) = vm.client.on(domain, CALL_NAME, class, through_agent).await else {
            return Ok(());
        };
        tracing::debug!(reason = %error, "the guest agent does not answer, pressing the power button");
    }
    let by_button = |domain: &dyn Domain| domain.shutdown(ShutdownMode::Acpi);
    vm.client
        .on(domain, CALL_NAME, POWER_BUTTON, by_button)
        .await
}
