use domain::vmi::Vmi;
use libvirt::RebootMode;

use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, Vm};

/// Asks the guest to reboot: its agent when the VMI says one is connected, else the power button.
pub(in crate::manager) async fn soft_reboot(vm: &Vm, vmi: &Vmi) -> Result<(), OpError> {
    let mode = mode(vmi)?;
    let guest = vm
        .lookup()
        .await?
        .ok_or_else(|| OpError::no_domain(&vm.identity.domain))?;
    let asked = vm.on(
        &guest,
        "asking the guest to reboot",
        COMMAND,
        move |guest| guest.reboot(mode),
    );
    match asked.await {
        // The agent goes away while the guest reboots.
        Err(OpError::Libvirt(error)) if error.is_agent_unresponsive() => Ok(()),
        other => other,
    }
}

fn mode(vmi: &Vmi) -> Result<RebootMode, OpError> {
    let acpi = vmi.value().pointer("/spec/domain/features/acpi/enabled");
    match (
        agent_connected(vmi),
        acpi.and_then(|enabled| enabled.as_bool()),
    ) {
        (true, _) => Ok(RebootMode::Agent),
        (false, Some(false)) => Err(OpError::NoWayToReboot),
        (false, _) => Ok(RebootMode::Acpi),
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

    fn mode_of(rest: &str) -> Result<RebootMode, OpError> {
        mode(
            &Vmi::from_json(format!(r#"{{"metadata":{{"name":"vm1"}}{rest}}}"#).as_bytes())
                .unwrap(),
        )
    }

    #[test]
    fn the_agent_first_then_the_power_button() {
        let agent = r#","status":{"conditions":[{"type":"AgentConnected","status":"True"}]}"#;
        let gone = r#","status":{"conditions":[{"type":"AgentConnected","status":"False"}]}"#;
        let no_acpi = r#","spec":{"domain":{"features":{"acpi":{"enabled":false}}}}"#;
        assert_eq!(mode_of("").unwrap(), RebootMode::Acpi);
        assert_eq!(mode_of(agent).unwrap(), RebootMode::Agent);
        assert_eq!(mode_of(gone).unwrap(), RebootMode::Acpi);
        assert!(matches!(mode_of(no_acpi), Err(OpError::NoWayToReboot)));
        assert_eq!(
            mode_of(&format!("{agent}{no_acpi}")).unwrap(),
            RebootMode::Agent
        );
    }
}
