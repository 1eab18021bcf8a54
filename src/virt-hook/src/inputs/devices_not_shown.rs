//! Devices of a VMI that its domain lacks, because a cluster adds them only by the VMI's status.

use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::vm_manifest::Note;

/// Maximum number of devices that a note names.
const MAX_DEVICES: usize = 10;
/// The prefix of aliases that libvirt leaves alone.
const USER_ALIAS: &str = "ua-";

/// A note for each kind of devices that is not shown.
pub(super) fn notes(vmi: &Vmi, xml: &str) -> Vec<Note> {
    let devices = &vmi.spec.domain.devices;
    let has_alias = |alias: &str| {
        [
            format!("\"{USER_ALIAS}{alias}\""),
            format!("'{USER_ALIAS}{alias}'"),
        ]
        .iter()
        .any(|attribute| xml.contains(attribute.as_str()))
    };
    let interfaces = devices.interfaces.iter();
    let sriov = interfaces
        .filter(|interface| interface.sriov.is_some())
        .map(|interface| interface.name.as_str())
        .filter(|name| !has_alias(&format!("sriov-{name}")));
    let bound_by_plugins = vmi
        .spec
        .domain
        .devices
        .interfaces
        .iter()
        .filter(|interface| interface.binding.is_some())
        .map(|interface| interface.name.as_str())
        .filter(|name| !has_alias(name));
    let disks = devices.disks.iter().map(|disk| disk.name.as_str());
    let disks = disks.filter(|name| !has_alias(name));
    let mut notes = Vec::new();
    if let Some(names) = list(sriov) {
        notes.push(Note::differs("SR-IOV", format!(
            "the SR-IOV interfaces {names} are not shown: a cluster adds them when status.interfaces says that Multus has \
             attached them (infoSource multus-status)"
        )));
    }
    if let Some(names) = list(bound_by_plugins) {
        notes.push(Note::differs("binding plugins", format!(
            "the interfaces {names} are not shown: the cluster's configuration of their binding plugins decides what they are; \
             interfaceDomainAttachment of --options says it, too"
        )));
    }
    let wants_vsock = vmi.value().pointer("/spec/domain/devices/autoattachVSOCK");
    if wants_vsock == Some(&Value::Bool(true)) && !xml.contains("<vsock") {
        let text =
            "the vsock device is not shown: a cluster adds it with the number in status.VSOCKCID";
        notes.push(Note::differs("vsock", text.to_owned()));
    }
    if let Some(names) = list(disks) {
        notes.push(Note::differs("hotplugged disks", format!(
            "the disks {names} are not shown: a cluster adds them when status.volumeStatus says that their volumes are \
             attached"
        )));
    }
    notes
}

/// The names in a text; `None` if there are none.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(MAX_DEVICES).copied().collect::<Vec<_>>();
    let more = match names.len().saturating_sub(MAX_DEVICES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}
