//! Disks: target, bus and driver of the guest's volumes.

use kubevirt_api::vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::convert::pci_address;
use crate::convert::storage::block_size;
use crate::convert::storage::disk_sources;
use crate::convert::storage::disk_target_names::{DeviceName, DeviceNames};
use crate::convert::storage::io_threads::IoThreadAssignment;
use crate::libvirt_spec::{
    Address, Alias, BootOrder, Disk, DiskDriver, DomainSpec, ReadOnly, Reservations, Shareable,
    SourceReservations,
};

/// The maximum number of disks, which is more than the buses of a machine can have.
const MAX_DISKS: usize = 4096;
const PR_HELPER_SOCKET: &str = "/var/run/kubevirt/daemons/pr/pr-helper.sock";

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let count = context.devices().disks.len();
    if count > MAX_DISKS {
        return Err(ConvertError::invalid(format!(
            "spec.domain.devices.disks has {count} disks, more than {MAX_DISKS}"
        )));
    }
    let mut names = DeviceNames::new(context.vmi);
    let mut threads = IoThreadAssignment::new(context.vmi)?;
    spec.devices.disks.reserve_exact(count);
    for (index, source) in context.devices().disks.iter().enumerate() {
        let mut disk = convert(context, source, &mut names, index)?;
        let is_present = disk_sources::set_source(context, source, &mut disk)?;
        if is_present {
            disk.block_io = block_size::block_io(context, source, &disk)?;
        }
        disk.driver_mut().error_policy = error_policy(source)?;
        threads.assign(source, &mut disk);
        if is_present {
            spec.devices.disks.push(disk);
        }
    }
    Ok(())
}

/// Converts a disk without its source.
pub(crate) fn convert<'a>(
    context: &Context<'_>,
    source: &'a vmi::Disk,
    names: &mut DeviceNames<'a>,
    index: usize,
) -> Result<Disk, ConvertError> {
    let field = format!("spec.domain.devices.disks[{index}]");
    let mut disk = Disk {
        alias: Some(Alias::user(&source.name)),
        boot_order: source.boot_order.map(|order| BootOrder { order }),
        driver: Some(DiskDriver {
            name: "qemu".into(),
            cache: source.cache.clone(),
            io: source.io.clone(),
            ..DiskDriver::default()
        }),
        ..Disk::default()
    };
    if let Some(target) = &source.disk {
        let name = names.take(source, &format!("{field}.disk.bus"))?;
        set_disk_target(context, source, target, name, &mut disk)?;
    } else if let Some(target) = &source.lun {
        let name = names.take(source, &format!("{field}.lun.bus"))?;
        set_lun_target(context, target, name, &mut disk);
    } else if let Some(target) = &source.cdrom {
        let name = names.take(source, &format!("{field}.cdrom.bus"))?;
        set_cdrom_target(target, name, &mut disk);
    } else {
        return Err(ConvertError::invalid(format!(
            "{field} is neither disk, lun nor cdrom"
        )));
    }
    if source.disk.is_some() || source.lun.is_some() {
        set_discard_and_capacity(context, source, &mut disk);
    }
    if context.devices().block_multi_queue == Some(true) && disk.target.bus == "virtio" {
        disk.driver_mut().queues = Some(context.vcpus.max(1).into());
    }
    if disk.target.bus == "virtio" {
        disk.driver_mut().iommu = context.iommu();
    }
    Ok(disk)
}

fn set_disk_target(
    context: &Context<'_>,
    source: &vmi::Disk,
    target: &vmi::DiskTarget,
    name: DeviceName,
    disk: &mut Disk,
) -> Result<(), ConvertError> {
    disk.device = "disk".into();
    disk.read_only = target.read_only.then(ReadOnly::default);
    disk.serial.clone_from(&source.serial);
    set_target(&target.bus, name, disk);
    if !target.pci_address.is_empty() {
        disk.address = Some(disk_pci_address(source, target)?);
    }
    if target.bus == "virtio" {
        disk.model = context.virtio_model.into();
    }
    if source.shareable == Some(true) {
        set_shareable(source, disk)?;
    }
    Ok(())
}

fn disk_pci_address(source: &vmi::Disk, target: &vmi::DiskTarget) -> Result<Address, ConvertError> {
    if target.bus != "virtio" {
        return Err(ConvertError::invalid(format!(
            "setting a pci address is not allowed for non-virtio bus types, for disk {}",
            source.name
        )));
    }
    pci_address::parse(&target.pci_address).map_err(|error| {
        ConvertError::invalid(format!("failed to configure disk {}: {error}", source.name))
    })
}

/// Makes a disk shareable, which requires cache mode `none`.
fn set_shareable(source: &vmi::Disk, disk: &mut Disk) -> Result<(), ConvertError> {
    if !matches!(source.cache.as_str(), "" | "none") {
        return Err(ConvertError::invalid(format!(
            "a sharable disk requires cache = none got: {}",
            source.cache
        )));
    }
    disk.driver_mut().cache = "none".into();
    disk.shareable = Some(Shareable::default());
    Ok(())
}

fn set_lun_target(
    context: &Context<'_>,
    target: &vmi::LunTarget,
    name: DeviceName,
    disk: &mut Disk,
) {
    disk.device = "lun".into();
    disk.read_only = target.read_only.then(ReadOnly::default);
    set_target(&target.bus, name, disk);
    if target.reservation {
        let can_migrate = context.behaviour().migrates_reservations;
        disk.source.reservations = Some(Reservations {
            managed: "no".into(),
            migration: if can_migrate { "yes" } else { "" }.into(),
            source_reservations: Some(SourceReservations {
                kind: "unix".into(),
                path: PR_HELPER_SOCKET.into(),
                mode: "client".into(),
            }),
        });
    }
}

fn set_cdrom_target(target: &vmi::CdromTarget, name: DeviceName, disk: &mut Disk) {
    disk.device = "cdrom".into();
    disk.read_only = target.read_only.unwrap_or(true).then(ReadOnly::default);
    disk.target.tray.clone_from(&target.tray);
    disk.target.bus.clone_from(&target.bus);
    disk.target.device = name.name;
}

/// Sets target name and bus. All SCSI disks are on the first controller.
fn set_target(bus: &str, name: DeviceName, disk: &mut Disk) {
    disk.target.bus = bus.into();
    disk.target.device = name.name;
    if bus == "scsi" {
        disk.address = Some(Address {
            kind: "drive".into(),
            controller: "0".into(),
            bus: "0".into(),
            unit: name.index.to_string(),
            ..Address::default()
        });
    }
}

/// Sets the discard mode, and the capacity and file system overhead of the claim.
fn set_discard_and_capacity(context: &Context<'_>, source: &vmi::Disk, disk: &mut Disk) {
    if context.discards(&source.name) {
        disk.driver_mut().discard = "unmap".into();
    }
    let status = context.volume_status.get(source.name.as_str());
    if let Some(claim) = status.and_then(|status| status.persistent_volume_claim_info.as_ref()) {
        disk.filesystem_overhead
            .clone_from(&claim.filesystem_overhead);
        let storage = |sizes: &std::collections::BTreeMap<String, vmi::Quantity>| {
            sizes.get("storage")?.integer()
        };
        disk.capacity = storage(&claim.capacity)
            .zip(storage(&claim.requests))
            .map(|(capacity, request)| capacity.min(request));
        disk.expand_disks_enabled = (context.behaviour().expands_disks_by_option
            && context.cluster.expand_disks_enabled)
            .then_some(true);
    }
}

fn error_policy(source: &vmi::Disk) -> Result<String, ConvertError> {
    match source.error_policy.as_deref() {
        None => Ok("stop".into()),
        Some(policy @ ("stop" | "ignore" | "report" | "enospace")) => Ok(policy.into()),
        Some(policy) => Err(ConvertError::invalid(format!(
            "error policy {policy} not recognized"
        ))),
    }
}
