use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::{HostDeviceAttachment, sriov_attachments};
use libvirt::{Affect, Domain};
use tokio::time::Instant;

use super::sync::{convert, read_live_domain};
use crate::blocking;
use crate::boot::host::has_network_info;
use crate::boot::resources::FILE_TIMEOUT;
use crate::libvirt_client::COMMAND;
use crate::manager::error::OpError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::manager::{Answer, DeviceChangeError};

/// The kubelet writes the addresses of new interfaces a moment after virt-handler has seen them.
const NETWORK_INFO_TIMEOUT: Duration = Duration::from_secs(1);
const NETWORK_INFO_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Attaches the SR-IOV interfaces that the pod has and the running VM has not. Each is tried, whatever becomes of the
/// others; the first error is returned.
pub(in crate::manager) async fn attach_host_devices(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<Answer, OpError> {
    let domain = vm.client.lookup().await?.ok_or(OpError::NotFound)?;
    wait_for_network_info().await?;
    let wanted = convert(vm, request).await?;
    let live = read_live_domain(vm, &domain).await?;
    let attachments = sriov_attachments(&request.vmi, &wanted, &live);
    let mut answer = Ok(Answer::NothingToDo);
    for attachment in attachments {
        let attached = attach(vm, &domain, attachment).await;
        answer = match (answer, attached) {
            (Ok(_), Ok(())) => Ok(Answer::Done),
            (Ok(_), Err(error)) => Err(error.into()),
            (error, _) => error,
        };
    }
    answer
}

async fn wait_for_network_info() -> Result<(), OpError> {
    let begin = Instant::now();
    let what = "reading the pod's network information";
    while !blocking::call(what, FILE_TIMEOUT, has_network_info).await?
        && begin.elapsed() < NETWORK_INFO_TIMEOUT
    {
        tokio::time::sleep(NETWORK_INFO_POLL_INTERVAL).await;
    }
    Ok(())
}

async fn attach(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    attachment: HostDeviceAttachment,
) -> Result<(), DeviceChangeError> {
    let HostDeviceAttachment { interface, xml } = attachment;
    let attach = move |domain: &dyn Domain| domain.attach_device(&xml, Affect::LiveAndConfig);
    let what = "attaching a host device";
    let change = || format!("attaching SR-IOV interface {interface}");
    match vm.client.on(domain, what, COMMAND, attach).await {
        Ok(()) => tracing::info!(device = interface, "{}: done", change()),
        Err(error) => {
            let error = DeviceChangeError::failed(change(), error.message());
            tracing::error!(device = interface, reason = %error, "a host device is not attached");
            return Err(error);
        }
    }
    Ok(())
}
