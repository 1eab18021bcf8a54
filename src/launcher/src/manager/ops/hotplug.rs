//! SR-IOV hotplug, which begins after virt-handler has its response: no deadline of the request applies.

use std::sync::Arc;
use std::time::Duration;

use domain::convert::{cpu_and_numa_placement, requested_vcpus};
use domain::libvirt_spec::{CpuTune, DomainSpec};
use domain::reconcile::{HostDeviceAttachment, MemoryChange, memory_change, sriov_attachments};
use hook_host::AttachTime;
use kubevirt_api::vmi::Vmi;
use libvirt::{Affect, Domain};

use super::attach_device::{AttachResult, Attachment, forget_unwanted};
use super::read_live_domain;
use super::remove_failed_attaches::remove_failed_attaches;
use super::sync::{convert, report_failed_changes};
use crate::libvirt_client::COMMAND;
use crate::manager::alert_reporter::{Condition, Subject};
use crate::manager::command_error::CommandError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::tracked_devices::DeviceKind;
use crate::manager::vm_context::VmContext;
use crate::manager::{CommandSuccess, DeviceChangeError};
use crate::vm_boot::host_facts::{wait_for_network_info, with_current_cpus};

/// Attaches the SR-IOV interfaces of the VMI that the running VM lacks. A failure does not keep the others from being
/// attached; the error names all that failed, and an event reports each, since virt-handler has its response already.
pub(in crate::manager) async fn attach_sriov_interfaces(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<CommandSuccess, CommandError> {
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    wait_for_network_info(&vm.boot_resources.network_info).await?;
    let desired = convert(vm, request).await?;
    remove_failed_attaches(vm, &domain).await;
    let live = read_live_domain(vm, &domain).await?;
    let attachments = sriov_attachments(&request.vmi, &desired, &live);
    let names: Vec<&str> = attachments
        .iter()
        .map(|attachment| attachment.interface.as_str())
        .collect();
    forget_unwanted(vm, DeviceKind::HostDevice, &names);
    // No deadline of the request applies, because virt-handler has its response already.
    let time = vm.hooks.attach_time();
    let mut answer = CommandSuccess::Unchanged;
    let mut failures = Vec::new();
    for attachment in attachments {
        match attach(vm, &request.vmi, &domain, attachment, &time).await {
            Ok(true) => answer = CommandSuccess::Changed,
            Ok(false) => {}
            Err(error) => failures.push(error),
        }
    }
    let is_failed = |error: &&DeviceChangeError| matches!(error, DeviceChangeError::Failed { .. });
    let failed = failures.iter().filter(is_failed).map(|error| Condition {
        key: error.change().to_owned(),
        text: error.to_string(),
        patience: Duration::ZERO,
    });
    report_failed_changes(vm, Subject::FailedHostDevices, failed.collect());
    match DeviceChangeError::of_all(failures) {
        Some(error) => Err(error.into()),
        None => Ok(answer),
    }
}

/// Whether the interface was attached.
async fn attach(
    vm: &VmContext,
    vmi: &Vmi,
    domain: &Arc<dyn Domain>,
    attachment: HostDeviceAttachment,
    time: &AttachTime,
) -> Result<bool, DeviceChangeError> {
    let HostDeviceAttachment { interface, xml } = attachment;
    let change = || format!("attaching SR-IOV interface {interface}");
    let device = Attachment::host_device(&interface, xml);
    let attached = device.attach(vm, vmi, domain, time).await;
    let attached = attached.map_err(|error| {
        let error = DeviceChangeError::failed(change(), error.message(), vmi);
        tracing::error!(device = interface, reason = %error, "a host device is not attached");
        error
    })?;
    match attached {
        AttachResult::Attached => {
            tracing::info!(device = interface, "{}: done", change());
            Ok(true)
        }
        AttachResult::RefusedByHook => Ok(false),
        AttachResult::HooksOutOfTime(reason) => {
            let change = change();
            let request = "HotplugHostDevices";
            Err(DeviceChangeError::HooksOutOfTime {
                change,
                request,
                reason,
            })
        }
    }
}

// CPU hotplug. Dedicated CPUs are chosen before the number of vCPUs changes, so that a set that does not fit changes
// nothing.

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

/// Sets the running VM's memory to that of its VMI. The guest follows later; libvirt sends an event for each step.
pub(in crate::manager) async fn set_memory(
    vm: &VmContext,
    vmi: &Vmi,
) -> Result<CommandSuccess, CommandError> {
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    let live = read_live_domain(vm, &domain).await?;
    let Some(change) = memory_change(vmi, &live)? else {
        return Ok(CommandSuccess::Unchanged);
    };
    tracing::debug!(?change, "changing the guest's memory");
    let change = move |domain: &dyn Domain| match &change {
        MemoryChange::Attach(xml) => domain.attach_device(xml, Affect::LiveAndConfig),
        MemoryChange::Update(xml) => domain.update_device(xml, Affect::Live),
    };
    let what = "changing the guest's memory";
    let changed = vm.client.on(&domain, what, COMMAND, change).await;
    changed.map_err(|error| DeviceChangeError::failed(what.into(), error.message(), vmi))?;
    if let Some(settings) = &mut vm.driver_state().settings {
        settings.set_memory(vmi);
    }
    Ok(CommandSuccess::Changed)
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
