//! Notes about the VMIs of one or several files: each is told once, however many VMIs have it.

use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::vm_manifest::{Importance, Note};
use crate::output;

/// Notes with the places of their VMIs.
#[derive(Debug, Default)]
pub(crate) struct NotesOfVmis {
    merged: Vec<MergedNote>,
}

#[derive(Debug)]
struct MergedNote {
    note: Note,
    /// The file, and the VMI if the file has several.
    first_place: String,
    /// Number of other VMIs with the note.
    others: usize,
}

impl NotesOfVmis {
    /// Adds the notes about the VMI at a place.
    pub(super) fn add<'a>(&mut self, place: &str, notes: impl IntoIterator<Item = &'a Note>) {
        for note in notes {
            let is_same = |known: &MergedNote| {
                let known = &known.note;
                known.text == note.text || (note.subject.is_some() && known.subject == note.subject)
            };
            match self.merged.iter_mut().find(|known| is_same(known)) {
                Some(known) => known.others += 1,
                None => self.merged.push(MergedNote {
                    note: note.clone(),
                    first_place: place.to_owned(),
                    others: 0,
                }),
            }
        }
    }

    /// Prints the notes by importance. Where a VMI comes from is no warning.
    pub(crate) fn tell(mut self) {
        self.merged.sort_by_key(|merged| merged.note.importance);
        for merged in &self.merged {
            match merged.note.importance {
                Importance::Origin => output::note(&merged.text()),
                Importance::Differs | Importance::Mistake | Importance::Unseen => {
                    output::warn(&merged.text());
                }
            }
        }
    }
}

impl MergedNote {
    fn text(&self) -> String {
        let (place, text) = (&self.first_place, &self.note.text);
        match self.others {
            0 => format!("{place}: {text}"),
            others => format!("{place} and {others} more: {text}"),
        }
    }
}

/// Maximum number of devices that a note names.
const MAX_DEVICES: usize = 10;
/// The prefix of aliases that libvirt leaves alone.
const USER_ALIAS: &str = "ua-";

/// A note for each kind of devices that is not shown.
pub(super) fn notes_on_devices_not_shown(vmi: &Vmi, xml: &str) -> Vec<Note> {
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
    let mut notes_on_devices_not_shown = Vec::new();
    if let Some(names) = list(sriov) {
        notes_on_devices_not_shown.push(Note::differs("SR-IOV", format!(
            "the SR-IOV interfaces {names} are not shown: a cluster adds them when status.interfaces says that Multus has \
             attached them (infoSource multus-status)"
        )));
    }
    if let Some(names) = list(bound_by_plugins) {
        notes_on_devices_not_shown.push(Note::differs("binding plugins", format!(
            "the interfaces {names} are not shown: the cluster's configuration of their binding plugins decides what they are; \
             interfaceDomainAttachment of --options says it, too"
        )));
    }
    let wants_vsock = vmi.value().pointer("/spec/domain/devices/autoattachVSOCK");
    if wants_vsock == Some(&Value::Bool(true)) && !xml.contains("<vsock") {
        let text =
            "the vsock device is not shown: a cluster adds it with the number in status.VSOCKCID";
        notes_on_devices_not_shown.push(Note::differs("vsock", text.to_owned()));
    }
    if let Some(names) = list(disks) {
        notes_on_devices_not_shown.push(Note::differs("hotplugged disks", format!(
            "the disks {names} are not shown: a cluster adds them when status.volumeStatus says that their volumes are \
             attached"
        )));
    }
    notes_on_devices_not_shown
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
