//! Host devices from claims (Kubernetes' dynamic resource allocation). The host facts name the device behind
//! each request.

use kubevirt_api::vmi::{Gpu, VirtualGpuDisplay};

use crate::convert::conversion_inputs::Context;
use crate::convert::devices::hostdev_element;
use crate::convert::error::ConvertError;
use crate::host_facts::ClaimedDevice;
use crate::libvirt_spec::HostDevice;

/// A device that the VMI requests through a claim.
struct Request<'a> {
    kind: &'static str,
    alias: &'static str,
    name: &'a str,
    claim: &'a str,
    request: &'a str,
}

pub(crate) fn host_devices(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let devices = context.devices().host_devices.iter();
    let claimed = devices.filter(|device| {
        is_claimed(
            &device.device_name,
            &device.claim_name,
            &device.request_name,
        )
    });
    let wanted = claimed.map(|device| Request {
        kind: "HostDevice",
        alias: "dra-hostdevice-",
        name: &device.name,
        claim: device.claim_name.as_deref().unwrap_or_default(),
        request: device.request_name.as_deref().unwrap_or_default(),
    });
    wanted
        .map(|wanted| create(context, &wanted))
        .collect::<Result<_, _>>()
        .map_err(|error| {
            ConvertError::refused(format!(
                "failed to create dra generic host-devices: {error}"
            ))
        })
}

pub(crate) fn gpus(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let failed = |error: String| {
        ConvertError::refused(format!("failed to create DRA GPU host-devices: {error}"))
    };
    let gpus = &context.devices().gpus;
    let mut devices = Vec::new();
    let claimed = gpus
        .iter()
        .filter(|gpu| is_claimed(&gpu.device_name, &gpu.claim_name, &gpu.request_name));
    for gpu in claimed {
        let wanted = Request {
            kind: "GPU",
            alias: "dra-gpu-",
            name: &gpu.name,
            claim: gpu.claim_name.as_deref().unwrap_or_default(),
            request: gpu.request_name.as_deref().unwrap_or_default(),
        };
        let mut device = create(context, &wanted).map_err(failed)?;
        if device.kind == "mdev" {
            hostdev_element::apply_display(&mut device, display(gpu));
        }
        devices.push(device);
    }
    if gpus.iter().all(|gpu| display(gpu).is_none())
        && let Some(first) = devices.iter_mut().find(|device| device.kind == "mdev")
    {
        hostdev_element::enable_display(first, true);
    }
    Ok(devices)
}

fn display(gpu: &Gpu) -> Option<&VirtualGpuDisplay> {
    gpu.virtual_gpu_options.as_ref()?.display.as_ref()
}

/// Whether a claim provides the device. A device with neither plugin nor claim is found by the plugins' count.
pub(crate) fn is_claimed(
    device_name: &str,
    claim: &Option<String>,
    request: &Option<String>,
) -> bool {
    device_name.is_empty() && (claim.is_some() || request.is_some())
}

fn create(context: &Context<'_>, wanted: &Request<'_>) -> Result<HostDevice, String> {
    let Request {
        kind,
        alias,
        name,
        claim,
        request,
    } = wanted;
    if claim.is_empty() || request.is_empty() {
        return Err(format!("{kind} {name} has incomplete ClaimRequest"));
    }
    let alias = format!("{alias}{name}");
    let device = device(context, claim, request);
    match device {
        Some(device) if !device.mdev_uuid.is_empty() => {
            Ok(hostdev_element::mdev_device(alias, &device.mdev_uuid))
        }
        Some(device) if !device.pci_address.is_empty() => {
            hostdev_element::pci_device(alias, &device.pci_address)
                .map_err(|error| format!("failed to create PCI device for {name}: {error}"))
        }
        device => {
            let problem = |attribute| problem(device, attribute, claim, request);
            Err(format!(
                "{kind} {name} has no mdevUUID or pciBusID in metadata for claim {claim} request {request} \
                 (mdev: {}, pci: {})",
                problem("mdevUUID"),
                problem("pciBusID")
            ))
        }
    }
}

fn device<'a>(context: &Context<'a>, claim: &str, request: &str) -> Option<&'a ClaimedDevice> {
    let claims = &context.vmi.spec.resource_claims;
    claims.iter().find(|listed| listed.name == claim)?;
    context.host.claimed_devices.get(claim)?.get(request)
}

/// The address of a claimed PCI device.
pub(crate) fn pci_address<'a>(
    context: &Context<'a>,
    claim: &str,
    request: &str,
) -> Result<&'a str, String> {
    let device = device(context, claim, request);
    device
        .map(|device| device.pci_address.as_str())
        .filter(|address| !address.is_empty())
        .ok_or_else(|| problem(device, "pciBusID", claim, request))
}

/// Why a device has no such attribute.
fn problem(device: Option<&ClaimedDevice>, attribute: &str, claim: &str, request: &str) -> String {
    match device {
        None => format!("metadata not found for claim {claim:?}"),
        Some(device) if !device.problem.is_empty() => device.problem.clone(),
        Some(_) => format!("{attribute} not found for claim {claim:?} request {request:?}"),
    }
}
