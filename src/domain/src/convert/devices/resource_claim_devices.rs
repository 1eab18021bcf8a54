//! Host devices from resource claims (Kubernetes' dynamic resource allocation, DRA). The host facts contain the device
//! of each request.

use kubevirt_api::vmi::{Gpu, VirtualGpuDisplay};

use crate::convert::conversion_inputs::Context;
use crate::convert::devices::hostdev_element;
use crate::convert::error::ConvertError;
use crate::host_facts::ClaimedDevice;
use crate::libvirt_spec::HostDevice;

/// A device that the VMI requests through a resource claim.
struct Request<'a> {
    kind: &'static str,
    alias_prefix: &'static str,
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
    let requests = claimed.map(|device| Request {
        kind: "HostDevice",
        alias_prefix: "dra-hostdevice-",
        name: &device.name,
        claim: device.claim_name.as_deref().unwrap_or_default(),
        request: device.request_name.as_deref().unwrap_or_default(),
    });
    requests
        .map(|request| {
            let mut device = create_device(context, &request)?;
            if device.kind == "mdev" {
                device.model = context.architecture.claimed_mdev_model().into();
            }
            Ok(device)
        })
        .collect::<Result<_, String>>()
        .map_err(|error| {
            ConvertError::invalid(format!(
                "failed to create dra generic host-devices: {error}"
            ))
        })
}

pub(crate) fn gpus(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let gpu_error = |error: String| {
        ConvertError::invalid(format!("failed to create DRA GPU host-devices: {error}"))
    };
    let gpus = &context.devices().gpus;
    let mut devices = Vec::new();
    let claimed = gpus
        .iter()
        .filter(|gpu| is_claimed(&gpu.device_name, &gpu.claim_name, &gpu.request_name));
    for gpu in claimed {
        let request = Request {
            kind: "GPU",
            alias_prefix: "dra-gpu-",
            name: &gpu.name,
            claim: gpu.claim_name.as_deref().unwrap_or_default(),
            request: gpu.request_name.as_deref().unwrap_or_default(),
        };
        let mut device = create_device(context, &request).map_err(gpu_error)?;
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

/// Whether a resource claim provides the device. A device with neither plugin nor claim makes the check of the plugins'
/// device count fail.
pub(crate) fn is_claimed(
    device_name: &str,
    claim: &Option<String>,
    request: &Option<String>,
) -> bool {
    device_name.is_empty() && (claim.is_some() || request.is_some())
}

fn create_device(context: &Context<'_>, device: &Request<'_>) -> Result<HostDevice, String> {
    let Request {
        kind,
        alias_prefix,
        name,
        claim,
        request,
    } = device;
    if claim.is_empty() || request.is_empty() {
        return Err(format!("{kind} {name} has incomplete ClaimRequest"));
    }
    let alias = format!("{alias_prefix}{name}");
    let device = claimed_device(context, claim, request);
    match device {
        Some(device) if !device.mdev_uuid.is_empty() => {
            Ok(hostdev_element::mdev_device(alias, &device.mdev_uuid))
        }
        Some(device) if !device.pci_address.is_empty() => {
            hostdev_element::pci_device(alias, &device.pci_address)
                .map_err(|error| format!("failed to create PCI device for {name}: {error}"))
        }
        device => {
            let problem = |attribute| missing_attribute(device, attribute, claim, request);
            Err(format!(
                "{kind} {name} has no mdevUUID or pciBusID in metadata for claim {claim} request {request} \
                 (mdev: {}, pci: {})",
                problem("mdevUUID"),
                problem("pciBusID")
            ))
        }
    }
}

fn claimed_device<'a>(
    context: &Context<'a>,
    claim: &str,
    request: &str,
) -> Option<&'a ClaimedDevice> {
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
    let device = claimed_device(context, claim, request);
    device
        .map(|device| device.pci_address.as_str())
        .filter(|address| !address.is_empty())
        .ok_or_else(|| missing_attribute(device, "pciBusID", claim, request))
}

/// Why an attribute of a claimed device is unknown.
fn missing_attribute(
    device: Option<&ClaimedDevice>,
    attribute: &str,
    claim: &str,
    request: &str,
) -> String {
    match device {
        None => format!("metadata not found for claim {claim:?}"),
        Some(device) if !device.problem.is_empty() => device.problem.clone(),
        Some(_) => format!("{attribute} not found for claim {claim:?} request {request:?}"),
    }
}
