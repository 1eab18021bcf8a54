//! SMBIOS data for the guest.

use kubevirt_api::virtual_machine_options::Smbios;
use kubevirt_api::vmi::{Chassis, Firmware};

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, Entry, SysInfo};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let domain = &context.vmi.spec.domain;
    let mut system = domain
        .firmware
        .as_ref()
        .map(firmware_entries)
        .unwrap_or_default();
    system.extend(context.options.smbios.iter().flat_map(cluster_entries));
    spec.sys_info = Some(SysInfo {
        kind: "smbios".into(),
        system,
        chassis: domain
            .chassis
            .as_ref()
            .map(chassis_entries)
            .unwrap_or_default(),
        ..SysInfo::default()
    });
    Ok(())
}

fn entry(name: &str, value: &str) -> Entry {
    Entry {
        name: name.into(),
        value: value.into(),
    }
}

fn firmware_entries(firmware: &Firmware) -> Vec<Entry> {
    let mut entries = vec![entry("uuid", &firmware.uuid)];
    if !firmware.serial.is_empty() {
        entries.push(entry("serial", &firmware.serial));
    }
    entries
}

fn cluster_entries(smbios: &Smbios) -> [Entry; 5] {
    [
        entry("manufacturer", &smbios.manufacturer),
        entry("family", &smbios.family),
        entry("product", &smbios.product),
        entry("sku", &smbios.sku),
        entry("version", &smbios.version),
    ]
}

fn chassis_entries(chassis: &Chassis) -> Vec<Entry> {
    vec![
        entry("manufacturer", &chassis.manufacturer),
        entry("version", &chassis.version),
        entry("serial", &chassis.serial),
        entry("asset", &chassis.asset),
        entry("sku", &chassis.sku),
    ]
}
