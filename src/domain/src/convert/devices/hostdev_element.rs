//! `<hostdev>` elements: PCI and mediated devices, with or without a display.

use kubevirt_api::vmi::{self, VirtualGpuDisplay};

use crate::convert::error::ConvertError;
use crate::convert::pci_address;
use crate::libvirt_spec::{Address, Alias, HostDevice, HostDeviceSource};

pub(crate) fn pci_device(alias: String, address: &str) -> Result<HostDevice, ConvertError> {
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

pub(crate) fn mdev_device(alias: String, uuid: &str) -> HostDevice {
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

/// Enables the display of a mediated device, unless the VMI disables it.
pub(crate) fn apply_display(device: &mut HostDevice, display: Option<&VirtualGpuDisplay>) {
    if let Some(display) = display.filter(|display| display.enabled != Some(false)) {
        enable_display(device, has_ram_fb(display));
    }
}

pub(crate) fn enable_display(device: &mut HostDevice, ram_fb: bool) {
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
