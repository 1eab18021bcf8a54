//! The QEMU monitor of a simulated domain, with the commands that the launcher sends.

use super::Call;
use super::domain_handle::FakeDomain;
use super::errors::qemu_error;
use super::simulated_domain::SimulatedDomain;
use crate::domain::QemuMonitor;
use crate::error::{Result, code};

impl QemuMonitor for FakeDomain {
    fn qemu_command(&self, command: &str) -> Result<String> {
        self.with_domain(Call::QemuCommand, |domain| respond(domain, command))
    }
}

/// QEMU's response to a command.
fn respond(domain: &mut SimulatedDomain, command: &str) -> Result<String> {
    domain.must_run()?;
    let contains = |word: &str| command.contains(&format!("\"{word}\""));
    if contains("query-named-block-nodes") {
        return Ok(block_nodes(domain));
    }
    if contains("qom-list") {
        let devices = domain.leftover_devices.iter();
        let devices = devices.map(|id| format!(r#"{{"name":"{id}","type":"child<vfio-pci>"}}"#));
        return Ok(return_list(devices.collect()));
    }
    let before = domain.leftover_devices.len();
    if contains("device_del") {
        domain.leftover_devices.retain(|id| !contains(id));
    }
    Ok(match domain.leftover_devices.len() < before {
        true => r#"{"return":{},"id":"libvirt-1"}"#.to_owned(),
        false => {
            r#"{"error":{"class":"GenericError","desc":"not found"},"id":"libvirt-1"}"#.to_owned()
        }
    })
}

/// Fails if QEMU has a device with this id already, as QEMU does.
pub(super) fn refuse_duplicate_id(domain: &SimulatedDomain, alias: &str) -> Result<()> {
    if !domain.leftover_devices.contains(alias) {
        return Ok(());
    }
    Err(qemu_error(
        code::INTERNAL_ERROR,
        format!(
            "internal error: unable to execute QEMU command 'device_add': Duplicate device ID '{alias}'"
        ),
    ))
}

fn block_nodes(domain: &SimulatedDomain) -> String {
    let images = domain.bitmaps.iter().map(|(file, bitmaps)| {
        let bitmaps = bitmaps.iter().map(|name| {
            format!(r#"{{"name":"{name}","recording":true,"busy":false,"persistent":true}}"#)
        });
        let bitmaps = bitmaps.collect::<Vec<_>>().join(",");
        format!(r#"{{"node-name":"f","file":"{file}","dirty-bitmaps":[{bitmaps}]}}"#)
    });
    return_list(images.collect())
}

fn return_list(list: Vec<String>) -> String {
    format!(r#"{{"return":[{}],"id":"libvirt-1"}}"#, list.join(","))
}
