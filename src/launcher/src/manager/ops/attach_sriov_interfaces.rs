//! SR-IOV hotplug, which begins after virt-handler has its response: no deadline of the request applies.

use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::{HostDeviceAttachment, sriov_attachments};
use hook_host::AttachTime;
use kubevirt_api::vmi::Vmi;
use libvirt::Domain;

use super::attach_device::{AttachResult, Attachment, forget_unwanted};
use super::read_domain_xml::read_live_domain;
use super::remove_failed_attaches::remove_failed_attaches;
use super::sync::{convert, report_failed_changes};
use crate::manager::command_error::CommandError;
use crate::manager::devices_refused_by_hooks::DeviceKind;
use crate::manager::reported_conditions::{Condition, Subject};
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::manager::{CommandSuccess, DeviceChangeError};
use crate::vm_boot::host_facts::wait_for_network_info;

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
