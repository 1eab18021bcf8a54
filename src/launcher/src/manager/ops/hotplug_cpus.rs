//! CPU hotplug. Dedicated CPUs are chosen before the number of vCPUs changes, so that a set that does not fit changes
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use domain::convert::{cpu_and_numa_placement, requested_vcpus};
use domain::libvirt_spec::{CpuTune, DomainSpec};
use libvirt::{Affect, Domain};

use crate::libvirt_client::COMMAND;
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::vm_boot::host_facts::with_current_cpus;

/// Prefix of every error, which KubeVirt's users search for.
const ERROR_PREFIX: &str = "failed to update vCPUs";
/// Timeout of setting the number of vCPUs. libvirt alone waits 5 s for the guest to release vCPUs.
const SET_CPUS_TIMEOUT: Duration = Duration::from_secs(12);

/// Sets the running VM's vCPUs to the number in its VMI, and pins dedicated CPUs again. The pinning of IO threads
/// stays.
pub(in crate::manager) async fn set_cpus(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<CommandSuccess, CommandError> {
    let count = requested_vcpus(&request.vmi)?;
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    let pins = match has_dedicated_cpus(request) {
        true => pins(vm, request).await.map_err(with_prefix)?,
        false => Pins::default(),
    };
    let set_vcpus = move |domain: &dyn Domain| domain.set_vcpus(count, Affect::LiveAndConfig);
    let what = "setting the number of processors";
    let class = COMMAND.within(SET_CPUS_TIMEOUT);
    let set = vm.client.on(&domain, what, class, set_vcpus);
    set.await.map_err(|error| with_prefix(error.into()))?;
    if let Some(settings) = &mut vm.driver_state().settings {
        settings.set_vcpus(&request.vmi);
    }
    pin(vm, &domain, pins).await.map_err(with_prefix)?;
    tracing::info!(processors = count, "processors set");
    Ok(CommandSuccess::Changed)
}

/// The pinning of the VMI. Only its CPUs are converted: devices and volumes do not matter here.
async fn pins(vm: &VmContext, request: &SyncRequest) -> Result<Pins, CommandError> {
    let facts = with_current_cpus(vm.boot_resources.facts().await?).await?;
    Pins::from_spec(&cpu_and_numa_placement(
        &request.vmi,
        &request.options,
        &facts,
    )?)
}

fn with_prefix(error: CommandError) -> CommandError {
    CommandError::Prefixed {
        prefix: ERROR_PREFIX,
        reason: Box::new(error),
    }
}

fn has_dedicated_cpus(request: &SyncRequest) -> bool {
    let cpu = request.vmi.spec.domain.cpu.as_ref();
    cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement)
}

/// The host CPUs to which vCPUs and QEMU's own threads are pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pins {
    vcpus: Vec<(u32, Vec<u32>)>,
    emulator: Option<Vec<u32>>,
}

impl Pins {
    fn from_spec(spec: &DomainSpec) -> Result<Pins, CommandError> {
        let Some(CpuTune {
            vcpu_pin,
            emulator_pin,
            ..
        }) = &spec.cpu_tune
        else {
            return Ok(Pins::default());
        };
        let vcpus = vcpu_pin
            .iter()
            .map(|pin| Ok((pin.vcpu, cpu_list(&pin.cpuset)?)));
        let emulator = emulator_pin.as_ref().map(|pin| cpu_list(&pin.cpuset));
        Ok(Pins {
            vcpus: vcpus.collect::<Result<_, CommandError>>()?,
            emulator: emulator.transpose()?,
        })
    }
}

/// Parses host CPUs as conversion writes them, such as `2,6`.
fn cpu_list(text: &str) -> Result<Vec<u32>, CommandError> {
    let cpus = text.split(',').map(|cpu| cpu.trim().parse::<u32>());
    cpus.collect::<Result<_, _>>()
        .map_err(|error| CommandError::DomainDescription(format!("processors {text:?}: {error}")))
}

async fn pin(vm: &VmContext, domain: &Arc<dyn Domain>, pins: Pins) -> Result<(), CommandError> {
    if pins == Pins::default() {
        return Ok(());
    }
    let pin = move |domain: &dyn Domain| {
        for (vcpu, cpus) in &pins.vcpus {
            domain.pin_vcpu(*vcpu, cpus, Affect::LiveAndConfig)?;
        }
        match &pins.emulator {
            Some(cpus) => domain.pin_emulator(cpus, Affect::LiveAndConfig),
            None => Ok(()),
        }
    };
    let what = "pinning processors";
    Ok(vm.client.on(domain, what, COMMAND, pin).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_read_from_the_converted_domain() {
        let xml = "<domain><cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='6'/>\
            <emulatorpin cpuset='2,3'/></cputune></domain>";
        let pins = Pins::from_spec(&domain::domain_spec_from_xml::parse(xml).unwrap()).unwrap();
        assert_eq!(pins.vcpus, [(0, vec![4]), (1, vec![6])]);
        assert_eq!(pins.emulator, Some(vec![2, 3]));
        let none = domain::domain_spec_from_xml::parse("<domain/>").unwrap();
        assert_eq!(Pins::from_spec(&none).unwrap(), Pins::default());
        assert!(cpu_list("0-3").is_err());
    }
}
