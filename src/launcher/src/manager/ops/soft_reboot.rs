//! Soft reboot. If the agent gives no answer to the request itself, the reboot counts as accepted, because the agent
//! stops when the guest reboots.

use std::sync::Arc;

use kubevirt_api::vmi::Vmi;
use libvirt::{Domain, RebootMode};

use crate::guest_agent::{self, AGENT_TIMEOUT};
use crate::libvirt_client::{AGENT_REBOOT, CallClass, CallError, POWER_BUTTON};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;

/// How the guest is asked to reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RebootMethod {
    Agent,
    AgentOrPowerButton,
    PowerButton,
}

/// Asks the guest to reboot: through its agent if the VMI reports one as connected and the agent answers a ping,
/// otherwise by the power button. A frozen guest is thawed first, since it could do neither.
pub(in crate::manager) async fn soft_reboot(
    vm: &VmContext,
    vmi: &Vmi,
) -> Result<CommandSuccess, CommandError> {
    let method = reboot_method(vmi)?;
    let domain = vm
        .client
        .lookup()
        .await?
        .ok_or_else(|| CommandError::no_domain(&vm.identity.domain))?;
    let is_agent_silent = !vm.freezer.thaw_if_frozen(AGENT_TIMEOUT).await;
    let has_button = method == RebootMethod::AgentOrPowerButton;
    if method == RebootMethod::PowerButton || (is_agent_silent && has_button) {
        press_power_button(vm, &domain).await?;
        return Ok(CommandSuccess::Changed);
    }
    match guest_agent::expect_answer(&vm.client, &domain).await {
        Ok(()) => ask_agent(vm, &domain).await?,
        Err(error) if has_button => {
            tracing::debug!(reason = %error, "the guest agent does not answer, pressing the power button");
            press_power_button(vm, &domain).await?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(CommandSuccess::Changed)
}

async fn ask_agent(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    match reboot(vm, domain, AGENT_REBOOT, RebootMode::Agent).await {
        // The agent stops answering while the guest reboots.
        Err(CallError::Libvirt(error)) if error.is_agent_unresponsive() => Ok(()),
        Err(CallError::NoAnswer(error)) => {
            tracing::info!(reason = %error, "the guest accepted the reboot, and has not rebooted yet");
            Ok(())
        }
        other => other,
    }
}

async fn press_power_button(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
    reboot(vm, domain, POWER_BUTTON, RebootMode::Acpi).await
}

async fn reboot(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    class: CallClass,
    mode: RebootMode,
) -> Result<(), CallError> {
    let reboot = move |domain: &dyn Domain| domain.reboot(mode).map_err(guest_agent::shorten);
    let what = "asking the guest to reboot";
    vm.client.on(domain, what, class, reboot).await
}

fn reboot_method(vmi: &Vmi) -> Result<RebootMethod, CommandError> {
    let features = vmi.spec.domain.features.as_ref();
    let acpi = features.is_none_or(|features| features.acpi.is_enabled());
    match (is_agent_connected(vmi), acpi) {
        (true, true) => Ok(RebootMethod::AgentOrPowerButton),
        (true, false) => Ok(RebootMethod::Agent),
        (false, true) => Ok(RebootMethod::PowerButton),
        (false, false) => Err(CommandError::NoWayToReboot),
    }
}

fn is_agent_connected(vmi: &Vmi) -> bool {
    let mut conditions = vmi.status.conditions.iter();
    conditions.any(|condition| condition.kind == "AgentConnected" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method_of(rest: &str) -> Result<RebootMethod, CommandError> {
        let vmi = format!(r#"{{"metadata":{{"name":"vm1"}}{rest}}}"#);
        reboot_method(&Vmi::from_json(vmi.as_bytes()).unwrap())
    }

    #[test]
    fn reboot_method_follows_from_agent_and_acpi() {
        let agent = r#","status":{"conditions":[{"type":"AgentConnected","status":"True"}]}"#;
        let disconnected =
            r#","status":{"conditions":[{"type":"AgentConnected","status":"False"}]}"#;
        let no_acpi = r#","spec":{"domain":{"features":{"acpi":{"enabled":false}}}}"#;
        assert_eq!(method_of("").unwrap(), RebootMethod::PowerButton);
        assert_eq!(method_of(agent).unwrap(), RebootMethod::AgentOrPowerButton);
        assert_eq!(method_of(disconnected).unwrap(), RebootMethod::PowerButton);
        assert!(matches!(
            method_of(no_acpi),
            Err(CommandError::NoWayToReboot)
        ));
        assert_eq!(
            method_of(&format!("{agent}{no_acpi}")).unwrap(),
            RebootMethod::Agent
        );
    }
}
