//! Devices of the host given to the guest: GPUs and others from device plugins, and from claims.

use super::device_pool::{DevicePool, Kind};
use super::{Context, ConvertError, claims, pci_address, sriov};
use crate::spec::{Address, Alias, DomainSpec, HostDevice, HostDeviceSource};
use crate::vmi::{self, VirtualGpuDisplay};

/// A device that is asked for.
struct Wanted<'a> {
    alias: &'static str,
    name: &'a str,
    resource: &'a str,
    display: Option<&'a VirtualGpuDisplay>,
    /// It comes from a claim, and not from a plugin.
    is_claimed: bool,
}

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let of_networks = sriov::devices(context)?;
    let mut others = other_devices(context)?;
    others.extend(claims::host_devices(context)?);
    let mut gpus = gpus(context)?;
    gpus.extend(claims::gpus(context)?);
    let devices = &mut spec.devices.host_devices;
    devices.extend(others);
    devices.extend(gpus);
    devices.extend(of_networks);
    Ok(())
}

/// A USB device needs a USB controller in the guest.
pub(super) fn any_usb(context: &Context<'_>) -> bool {
    let plugins = &context.host.device_plugins;
    let mut devices = context.devices().host_devices.iter();
    devices.any(|device| plugins.contains_key(&Kind::Usb.variable(&device.device_name)))
}

/// Every device has addresses in at most one of the pools.
fn gpus(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let failed = |message: String| {
        ConvertError::refused(format!("failed to create GPU host-devices: {message}"))
    };
    let gpus = &context.devices().gpus;
    let wanted: Vec<_> = gpus.iter().map(gpu).collect();
    let mut devices = from_plugin(Kind::Pci, &wanted, context).map_err(failed)?;
    let mut mediated = from_plugin(Kind::Mdev, &wanted, context).map_err(failed)?;
    show_the_first(&wanted, &mut mediated);
    devices.extend(mediated);
    check_count("GPU", &wanted, &devices).map_err(failed)?;
    Ok(devices)
}

fn gpu(gpu: &vmi::Gpu) -> Wanted<'_> {
    Wanted {
        alias: "gpu-",
        name: &gpu.name,
        resource: &gpu.device_name,
        display: gpu
            .virtual_gpu_options
            .as_ref()
            .and_then(|options| options.display.as_ref()),
        is_claimed: claims::is_claimed(&gpu.device_name, &gpu.claim_name, &gpu.request_name),
    }
}

fn other_devices(context: &Context<'_>) -> Result<Vec<HostDevice>, ConvertError> {
    let failed = |message: String| {
        ConvertError::refused(format!("failed to create generic host-devices: {message}"))
    };
    let host_devices = context.devices().host_devices.iter();
    let wanted: Vec<_> = host_devices
        .map(|device| Wanted {
            alias: "hostdevice-",
            name: &device.name,
            resource: &device.device_name,
            display: None,
            is_claimed: claims::is_claimed(
                &device.device_name,
                &device.claim_name,
                &device.request_name,
            ),
        })
        .collect();
    let mut devices = from_plugin(Kind::Pci, &wanted, context).map_err(failed)?;
    devices.extend(from_plugin(Kind::Mdev, &wanted, context).map_err(failed)?);
    devices.extend(from_plugin(Kind::Usb, &wanted, context).map_err(ConvertError::refused)?);
    check_count("HostDevice", &wanted, &devices).map_err(failed)?;
    Ok(devices)
}

/// Devices whose resource has an address of this kind; the others are of another kind.
fn from_plugin(
    kind: Kind,
    wanted: &[Wanted<'_>],
    context: &Context<'_>,
) -> Result<Vec<HostDevice>, String> {
    let resources = wanted.iter().map(|device| device.resource);
    let mut pool = DevicePool::new(kind, resources, context.host);
    let mut devices = Vec::new();
    for device in wanted {
        let Some(address) = pool.take(device.resource) else {
            continue;
        };
        let created = match kind {
            Kind::Pci => pci(device, address),
            Kind::Mdev => Ok(mdev(device, address)),
            Kind::Usb => usb(device, address),
        };
        devices.push(created.map_err(|error| {
            format!("failed to create hostdevice for {}: {error}", device.name)
        })?);
    }
    Ok(devices)
}

fn pci(wanted: &Wanted<'_>, address: &str) -> Result<HostDevice, String> {
    let mut device = pci_device(format!("{}{}", wanted.alias, wanted.name), address)
        .map_err(|error| format!("failed to create PCI device for {}: {error}", wanted.name))?;
    if let Some(display) = wanted
        .display
        .filter(|display| display.enabled == Some(true))
    {
        let ram_fb = display.ram_fb.as_ref();
        show(
            &mut device,
            ram_fb.is_some_and(|ram_fb| ram_fb.enabled == Some(true)),
        );
    }
    Ok(device)
}

pub(super) fn pci_device(alias: String, address: &str) -> Result<HostDevice, ConvertError> {
    Ok(HostDevice {
        kind: "pci".into(),
        managed: "no".into(),
        alias: Some(Alias::user(alias)),
        source: HostDeviceSource {
            address: Some(pci_address::parse(address)?),
        },
        ..HostDevice::default()
    })
}

fn mdev(wanted: &Wanted<'_>, uuid: &str) -> HostDevice {
    let mut device = mdev_device(format!("{}{}", wanted.alias, wanted.name), uuid);
    show_as_asked(&mut device, wanted.display);
    device
}

pub(super) fn mdev_device(alias: String, uuid: &str) -> HostDevice {
    HostDevice {
        kind: "mdev".into(),
        mode: "subsystem".into(),
        model: "vfio-pci".into(),
        alias: Some(Alias::user(alias)),
        source: HostDeviceSource {
            address: Some(Address {
                uuid: uuid.into(),
                ..Address::default()
            }),
        },
        ..HostDevice::default()
    }
}

/// `BUS:DEVICE`.
fn usb(wanted: &Wanted<'_>, address: &str) -> Result<HostDevice, String> {
    let (bus, number) = address
        .split_once(':')
        .filter(|(_, number)| !number.contains(':'))
        .ok_or_else(|| format!("Bad value: {address}"))?;
    Ok(HostDevice {
        kind: "usb".into(),
        mode: "subsystem".into(),
        alias: Some(Alias::user(format!("usb-host-{}", wanted.name))),
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

/// A mediated device that is given a display has it on unless said otherwise.
pub(super) fn show_as_asked(device: &mut HostDevice, display: Option<&VirtualGpuDisplay>) {
    if let Some(display) = display.filter(|display| display.enabled != Some(false)) {
        show(device, has_ram_fb(display));
    }
}

/// Where no GPU says anything of a display, the first mediated one has it.
fn show_the_first(wanted: &[Wanted<'_>], mediated: &mut [HostDevice]) {
    if wanted.iter().all(|device| device.display.is_none())
        && let Some(first) = mediated.first_mut()
    {
        show(first, true);
    }
}

pub(super) fn show(device: &mut HostDevice, ram_fb: bool) {
    device.display = "on".into();
    if ram_fb {
        device.ramfb = "on".into();
    }
}

fn has_ram_fb(display: &VirtualGpuDisplay) -> bool {
    display
        .ram_fb
        .as_ref()
        .is_none_or(vmi::FeatureState::is_enabled)
}

/// A device that no plugin gave must not be missing in the guest.
fn check_count(kind: &str, wanted: &[Wanted<'_>], devices: &[HostDevice]) -> Result<(), String> {
    let wanted: Vec<_> = wanted
        .iter()
        .filter(|device| !device.is_claimed)
        .map(|device| format!("{} ({})", device.name, device.resource))
        .collect();
    if wanted.is_empty() || wanted.len() == devices.len() {
        return Ok(());
    }
    let found: Vec<_> = devices
        .iter()
        .filter_map(|device| Some(device.alias.as_ref()?.name.as_str()))
        .collect();
    Err(format!(
        "the number of device plugin {kind}/s do not match the number of devices:\n{kind}: [{}]\nDevice: [{}]",
        wanted.join(" "),
        found.join(" ")
    ))
}
