use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::vmi::Vmi;
use libvirt::{Domain, RebootMode};

use crate::libvirt_client::{AGENT, COMMAND, CallError};
use crate::manager::Answer;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;

/// How long the agent may take; libvirt would wait a minute.
const AGENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the guest to reboot: through its agent when the VMI says one is connected, else, or when the agent gives no
/// answer, by the power button.
pub(in crate::manager) async fn soft_reboot(vm: &VmContext, vmi: &Vmi) -> Result<Answer, OpError> {
    let modes = reboot_modes(vmi)?;
    let domain = vm
        .client
        .lookup()
        .await?
        .ok_or_else(|| OpError::no_domain(&vm.identity.domain))?;
    let mut outcome = Ok(());
    for mode in modes {
        outcome = ask(vm, &domain, *mode).await;
        if !matches!(outcome, Err(CallError::NoAnswer(_))) {
            break;
        }
    }
    outcome?;
    Ok(Answer::Done)
}

async fn ask(vm: &VmContext, domain: &Arc<dyn Domain>, mode: RebootMode) -> Result<(), CallError> {
    let class = match mode {
        RebootMode::Agent => AGENT.within(AGENT_TIMEOUT),
        RebootMode::Acpi | RebootMode::Default => COMMAND,
    };
    let reboot = move |domain: &dyn Domain| domain.reboot(mode);
    match vm
        .client
        .on(domain, "asking the guest to reboot", class, reboot)
        .await
    {
        // The agent goes away while the guest reboots.
        Err(CallError::Libvirt(error)) if error.is_agent_unresponsive() => Ok(()),
        other => other,
    }
}

/// The modes, in the order in which they are tried; at least one.
fn reboot_modes(vmi: &Vmi) -> Result<&'static [RebootMode], OpError> {
    let acpi = vmi.value().pointer("/spec/domain/features/acpi/enabled");
    let acpi = acpi.and_then(|enabled| enabled.as_bool()).unwrap_or(true);
    match (agent_connected(vmi), acpi) {
        (true, true) => Ok(&[RebootMode::Agent, RebootMode::Acpi]),
        (true, false) => Ok(&[RebootMode::Agent]),
        (false, true) => Ok(&[RebootMode::Acpi]),
        (false, false) => Err(OpError::NoWayToReboot),
    }
}

fn agent_connected(vmi: &Vmi) -> bool {
    let conditions = vmi
        .value()
        .pointer("/status/conditions")
        .and_then(|list| list.as_array());
    conditions.is_some_and(|list| {
        list.iter()
            .any(|condition| condition["type"] == "AgentConnected" && condition["status"] == "True")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn modes_of(rest: &str) -> Result<&'static [RebootMode], OpError> {
        reboot_modes(
            &Vmi::from_json(format!(r#"{{"metadata":{{"name":"vm1"}}{rest}}}"#).as_bytes())
                .unwrap(),
        )
    }

    #[test]
    fn agent_is_tried_before_the_power_button() {
        let agent = r#","status":{"conditions":[{"type":"AgentConnected","status":"True"}]}"#;
        let gone = r#","status":{"conditions":[{"type":"AgentConnected","status":"False"}]}"#;
        let no_acpi = r#","spec":{"domain":{"features":{"acpi":{"enabled":false}}}}"#;
        assert_eq!(modes_of("").unwrap(), [RebootMode::Acpi]);
        assert_eq!(
            modes_of(agent).unwrap(),
            [RebootMode::Agent, RebootMode::Acpi]
        );
        assert_eq!(modes_of(gone).unwrap(), [RebootMode::Acpi]);
        assert!(matches!(modes_of(no_acpi), Err(OpError::NoWayToReboot)));
        assert_eq!(
            modes_of(&format!("{agent}{no_acpi}")).unwrap(),
            [RebootMode::Agent]
        );
    }
}
