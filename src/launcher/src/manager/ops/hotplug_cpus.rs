use std::sync::Arc;
use std::time::Duration;

use domain::convert::{processor_placement, requested_vcpus};
use domain::libvirt_spec::{CpuTune, DomainSpec};
use libvirt::{Affect, Domain};

use crate::boot::host_facts::with_current_cpus;
use crate::libvirt_client::COMMAND;
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;

/// The prefix of every error, by which KubeVirt's users search.
const FAILED: &str = "failed to update vCPUs";
/// libvirt waits 5 s for the guest to release processors.
const DEADLINE: Duration = Duration::from_secs(12);

/// Gives the running VM the processors that its VMI asks for, and pins dedicated processors again. IO threads stay where
/// they are.
pub(in crate::manager) async fn set_cpus(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<CommandSuccess, OpError> {
    let count = requested_vcpus(&request.vmi)?;
    let domain = vm.client.lookup().await?.ok_or(OpError::NotFound)?;
    let pins = match has_dedicated_cpus(request) {
        true => pins(vm, request).await.map_err(failed)?,
        false => Pins::default(),
    };
    let set = move |domain: &dyn Domain| domain.set_vcpus(count, Affect::LiveAndConfig);
    let what = "setting the number of processors";
    let set = vm.client.on(&domain, what, COMMAND.within(DEADLINE), set);
    set.await.map_err(|error| failed(error.into()))?;
    if let Some(settings) = &mut vm.driver_state().settings {
        settings.set_processors(&request.vmi);
    }
    pin(vm, &domain, pins).await.map_err(failed)?;
    tracing::info!(processors = count, "processors set");
    Ok(CommandSuccess::Changed)
}

/// Only the processors are converted: devices and volumes of the VMI do not matter here.
async fn pins(vm: &VmContext, request: &SyncRequest) -> Result<Pins, OpError> {
    let facts = with_current_cpus(vm.boot_resources.facts().await?).await?;
    Pins::of(&processor_placement(
        &request.vmi,
        &request.options,
        &facts,
    )?)
}

fn failed(error: OpError) -> OpError {
    OpError::Prefixed {
        prefix: FAILED,
        reason: Box::new(error),
    }
}

fn has_dedicated_cpus(request: &SyncRequest) -> bool {
    let cpu = request.vmi.spec.domain.cpu.as_ref();
    cpu.is_some_and(|cpu| cpu.dedicated_cpu_placement)
}

/// Host processors of the virtual ones and of QEMU's own threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pins {
    vcpus: Vec<(u32, Vec<u32>)>,
    emulator: Option<Vec<u32>>,
}

impl Pins {
    fn of(spec: &DomainSpec) -> Result<Pins, OpError> {
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
            vcpus: vcpus.collect::<Result<_, OpError>>()?,
            emulator: emulator.transpose()?,
        })
    }
}

/// Processors as conversion writes them, such as `2,6`.
fn cpu_list(text: &str) -> Result<Vec<u32>, OpError> {
    let cpus = text.split(',').map(|cpu| cpu.trim().parse::<u32>());
    cpus.collect::<Result<_, _>>()
        .map_err(|error| OpError::Description(format!("processors {text:?}: {error}")))
}

async fn pin(vm: &VmContext, domain: &Arc<dyn Domain>, pins: Pins) -> Result<(), OpError> {
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pins_are_those_of_the_converted_domain() {
        let xml = "<domain><cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='6'/>\
            <emulatorpin cpuset='2,3'/></cputune></domain>";
        let pins = Pins::of(&domain::parse_domain_xml::parse(xml).unwrap()).unwrap();
        assert_eq!(pins.vcpus, [(0, vec![4]), (1, vec![6])]);
        assert_eq!(pins.emulator, Some(vec![2, 3]));
        let none = domain::parse_domain_xml::parse("<domain/>").unwrap();
        assert_eq!(Pins::of(&none).unwrap(), Pins::default());
        assert!(cpu_list("0-3").is_err());
    }
}
