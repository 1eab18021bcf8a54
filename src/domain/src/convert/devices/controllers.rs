//! Controllers of buses that libvirt does not add itself, or adds with another model.

use crate::convert::conversion_inputs::Context;
use crate::convert::devices::device_plugin_devices;
use crate::convert::error::ConvertError;
use crate::convert::storage::io_threads;
use crate::libvirt_spec::{Controller, ControllerDriver, DomainSpec, PciHole64};

const NO_PCI_HOLE64_ANNOTATION: &str = "kubevirt.io/disablePCIHole64";

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let controllers = &mut spec.devices.controllers;
    let architecture = context.architecture;
    let usb = if architecture.needs_usb(has_usb_devices(context)) {
        architecture.usb_controller()
    } else {
        "none"
    };
    controllers.push(controller("usb", usb));
    if needs_scsi(context) {
        let driver = scsi_io_thread(context).or_else(|| iommu_driver(context));
        controllers.push(Controller {
            driver,
            ..controller("scsi", architecture.scsi_controller(context.virtio_model))
        });
    }
    if disables_pci_hole64(context)
        && let Some(model) = architecture.hole64_controller()
    {
        let hole = PciHole64 {
            value: 0,
            unit: "KiB".into(),
        };
        controllers.push(Controller {
            pci_hole64: Some(hole),
            ..controller("pci", model)
        });
    }
    if context.devices().autoattach_serial_console != Some(false) {
        controllers.push(Controller {
            driver: iommu_driver(context),
            ..controller("virtio-serial", context.virtio_model)
        });
    }
    Ok(())
}

pub(crate) fn disables_pci_hole64(context: &Context<'_>) -> bool {
    context
        .vmi
        .annotation(NO_PCI_HOLE64_ANNOTATION)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The driver element of a controller of a guest whose memory is hidden from its devices.
fn iommu_driver(context: &Context<'_>) -> Option<ControllerDriver> {
    context.protection.hides_memory().then(|| ControllerDriver {
        iommu: context.iommu(),
        ..ControllerDriver::default()
    })
}

fn controller(kind: &str, model: &str) -> Controller {
    Controller {
        kind: kind.into(),
        index: "0".into(),
        model: model.into(),
        ..Controller::default()
    }
}

fn has_usb_devices(context: &Context<'_>) -> bool {
    let devices = context.devices();
    devices
        .inputs
        .iter()
        .any(|input| matches!(input.bus.as_str(), "usb" | ""))
        || devices
            .disks
            .iter()
            .any(|disk| disk.disk.as_ref().is_some_and(|disk| disk.bus == "usb"))
        || devices.client_passthrough.is_some()
        || device_plugin_devices::any_usb(context)
}

fn needs_scsi(context: &Context<'_>) -> bool {
    !context.devices().disable_hotplug
        || context
            .devices()
            .disks
            .iter()
            .any(|disk| disk.bus() == "scsi")
}

/// The driver element of the SCSI controller with an IO thread, if a SCSI disk has a dedicated IO thread.
fn scsi_io_thread(context: &Context<'_>) -> Option<ControllerDriver> {
    let disks = &context.devices().disks;
    let automatic = io_threads::IoThreadCounts::from_vmi(context.vmi).automatic;
    if automatic == 0
        || !disks
            .iter()
            .any(|disk| disk.bus() == "scsi" && io_threads::has_dedicated_io_thread(disk))
    {
        return None;
    }
    let shared = disks
        .iter()
        .filter(|disk| disk.bus() == "virtio" && !io_threads::has_dedicated_io_thread(disk))
        .count();
    let used = u64::try_from(shared).unwrap_or_default() % automatic;
    Some(ControllerDriver {
        io_thread: Some(used + 1),
        queues: Some(u64::from(context.vcpus.max(1))),
        iommu: context.iommu(),
    })
}
