//! The monitor of a simulated domain's QEMU: the commands that the launcher sends.

use super::simulated_domain::SimulatedDomain;
use crate::error::{Error, Result, code, origin};

/// QEMU's answer.
pub(super) fn answer(domain: &mut SimulatedDomain, command: &str) -> Result<String> {
    domain.must_run()?;
    let contains = |word: &str| command.contains(&format!("\"{word}\""));
    if contains("query-named-block-nodes") {
        return Ok(block_nodes(domain));
    }
    if contains("qom-list") {
        let devices = domain.leftover_devices.iter();
        let devices = devices.map(|id| format!(r#"{{"name":"{id}","type":"child<vfio-pci>"}}"#));
        return Ok(returned(devices.collect()));
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

/// QEMU's refusal of a device that it has already.
pub(super) fn must_not_have(domain: &SimulatedDomain, alias: &str) -> Result<()> {
    if !domain.leftover_devices.contains(alias) {
        return Ok(());
    }
    Err(Error {
        code: code::INTERNAL_ERROR,
        domain: origin::QEMU,
        message: format!(
            "internal error: unable to execute QEMU command 'device_add': Duplicate device ID '{alias}'"
        ),
    })
}

fn block_nodes(domain: &SimulatedDomain) -> String {
    let images = domain.bitmaps.iter().map(|(file, bitmaps)| {
        let bitmaps = bitmaps.iter().map(|name| {
            format!(r#"{{"name":"{name}","recording":true,"busy":false,"persistent":true}}"#)
        });
        let bitmaps = bitmaps.collect::<Vec<_>>().join(",");
        format!(r#"{{"node-name":"f","file":"{file}","dirty-bitmaps":[{bitmaps}]}}"#)
    });
    returned(images.collect())
}

fn returned(list: Vec<String>) -> String {
    format!(r#"{{"return":[{}],"id":"libvirt-1"}}"#, list.join(","))
}
