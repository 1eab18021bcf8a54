//! GPUs and other host devices from device plugins.

use kubevirt_api::vmi::{self, VirtualGpuDisplay};

use crate::convert::conversion_inputs::Context;
use crate::convert::devices::device_plugin_addresses::{AddressKind, DevicePool};
use crate::convert::devices::{hostdev_element, resource_claim_devices};
use crate::convert::error::ConvertError;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::{Address, Alias, HostDevice, HostDeviceSource};

/// A device that the VMI requests.
struct Request<'a> {
    alias_prefix: &'static str,
    name: &'a str,
    resource: &'a str,
    display: Option<&'a VirtualGpuDisplay>,
    /// Whether a resource claim provides the device, and not a plugin.
    is_claimed: bool,
}

/// Whether there is a USB device, which needs a USB controller in the guest.
pub(crate) fn any_usb(context: &Context<'_>) -> bool {
    let plugins = &context.host.device_plugins;
    let mut devices = context.devices().host_devices.iter();
    devices.any(|device| plugins.contains_key(&AddressKind::Usb.variable(&device.device_name)))
}

/// The GPUs. Each GPU has either a PCI address or an address of a mediated device.
pub(crate) fn gpus(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let gpu_or_device_error = |message: String| {
        ConvertError::invalid(format!("failed to create GPU host-devices: {message}"))
    };
    let gpus = &context.devices().gpus;
    let requests: Vec<_> = gpus.iter().map(gpu_request).collect();
    let mut devices =
        from_plugin(AddressKind::Pci, &requests, context).map_err(gpu_or_device_error)?;
    let mut mediated =
        from_plugin(AddressKind::Mdev, &requests, context).map_err(gpu_or_device_error)?;
    enable_first_display(&requests, &mut mediated);
    devices.extend(mediated);
    check_count("GPU", &requests, &devices).map_err(gpu_or_device_error)?;
    Ok(devices)
}

fn gpu_request(gpu: &vmi::Gpu) -> Request<'_> {
    Request {
        alias_prefix: "gpu-",
        name: &gpu.name,
        resource: &gpu.device_name,
        display: gpu
            .virtual_gpu_options
            .as_ref()
            .and_then(|options| options.display.as_ref()),
        is_claimed: resource_claim_devices::is_claimed(
            &gpu.device_name,
            &gpu.claim_name,
            &gpu.request_name,
        ),
    }
}

pub(crate) fn host_devices(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let gpu_or_device_error = |message: String| {
        ConvertError::invalid(format!("failed to create generic host-devices: {message}"))
    };
    let host_devices = context.devices().host_devices.iter();
    let requests: Vec<_> = host_devices
        .map(|device| Request {
            alias_prefix: "hostdevice-",
            name: &device.name,
            resource: &device.device_name,
            display: None,
            is_claimed: resource_claim_devices::is_claimed(
                &device.device_name,
                &device.claim_name,
                &device.request_name,
            ),
        })
        .collect();
    let mut devices =
        from_plugin(AddressKind::Pci, &requests, context).map_err(gpu_or_device_error)?;
    devices
        .extend(from_plugin(AddressKind::Mdev, &requests, context).map_err(gpu_or_device_error)?);
    devices
        .extend(from_plugin(AddressKind::Usb, &requests, context).map_err(ConvertError::invalid)?);
    check_count("HostDevice", &requests, &devices).map_err(gpu_or_device_error)?;
    Ok(devices)
}

/// The devices whose resource has an address of this kind.
fn from_plugin(
    kind: AddressKind,
    requests: &[Request<'_>],
    context: &Context<'_>,
) -> Result<Vec<HostDevice>, String> {
    let resources = requests.iter().map(|device| device.resource);
    let mut pool = DevicePool::new(kind, resources, context.host);
    let mut devices = Vec::new();
    for device in requests {
        let Some(address) = pool.take(device.resource) else {
            continue;
        };
        let result = match kind {
            AddressKind::Pci => pci(device, address, context.behaviour()),
            AddressKind::Mdev => Ok(mdev(device, address)),
            AddressKind::Usb => usb(device, address),
        };
        devices.push(result.map_err(|error| {
            format!("failed to create hostdevice for {}: {error}", device.name)
        })?);
    }
    Ok(devices)
}

fn pci(request: &Request<'_>, address: &str, behaviour: Behaviour) -> Result<HostDevice, String> {
    let mut device =
        hostdev_element::pci_device(format!("{}{}", request.alias_prefix, request.name), address)
            .map_err(|error| format!("failed to create PCI device for {}: {error}", request.name))?;
    if let Some(display) = request
        .display
        .filter(|display| behaviour.gpu_by_pci_has_display && display.enabled == Some(true))
    {
        let ram_fb = display.ram_fb.as_ref().and_then(|ram_fb| ram_fb.enabled);
        let ram_fb = ram_fb.unwrap_or(behaviour.gpu_by_pci_has_ramfb);
        hostdev_element::enable_display(&mut device, ram_fb);
    }
    Ok(device)
}

fn mdev(request: &Request<'_>, uuid: &str) -> HostDevice {
    let mut device =
        hostdev_element::mdev_device(format!("{}{}", request.alias_prefix, request.name), uuid);
    hostdev_element::apply_display(&mut device, request.display);
    device
}

/// A USB device from an address `BUS:DEVICE`.
fn usb(request: &Request<'_>, address: &str) -> Result<HostDevice, String> {
    let (bus, number) = address
        .split_once(':')
        .filter(|(_, number)| !number.contains(':'))
        .ok_or_else(|| format!("Bad value: {address}"))?;
    Ok(HostDevice {
        kind: "usb".into(),
        mode: "subsystem".into(),
        alias: Some(Alias::user(format!("usb-host-{}", request.name))),
        source: HostDeviceSource {
            address: Some(Address {
                bus: bus.into(),
                device: number.into(),
                ..Address::default()
            }),
        },
        ..HostDevice::default()
    })
}

/// Enables the display of the first mediated GPU if the VMI configures no display at all.
fn enable_first_display(requests: &[Request<'_>], mediated: &mut [HostDevice]) {
    if requests.iter().all(|device| device.display.is_none())
        && let Some(first) = mediated.first_mut()
    {
        hostdev_element::enable_display(first, true);
    }
}

/// Checks that the plugins provide all requested devices.
fn check_count(kind: &str, requests: &[Request<'_>], devices: &[HostDevice]) -> Result<(), String> {
    let requests: Vec<_> = requests
        .iter()
        .filter(|device| !device.is_claimed)
        .map(|device| format!("{} ({})", device.name, device.resource))
        .collect();
    if requests.is_empty() || requests.len() == devices.len() {
        return Ok(());
    }
    let aliases: Vec<_> = devices
        .iter()
        .filter_map(|device| Some(device.alias.as_ref()?.name.as_str()))
        .collect();
    Err(format!(
        "the number of device plugin {kind}/s do not match the number of devices:\n{kind}: [{}]\nDevice: [{}]",
        requests.join(" "),
        aliases.join(" ")
    ))
}
