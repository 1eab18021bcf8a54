//! VirtualMachineInstancePresets of a file, which a cluster applies to new VMIs with their labels. They are deprecated, and
//! not applied here.

use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value};

use super::objects_of_file::FileObject;
use super::{DEFAULT_NAMESPACE, Note};

const PRESET: &str = "VirtualMachineInstancePreset";
/// The annotation of a VMI that no preset is applied to, with the value `true`.
const EXCLUSION: &str = "virtualmachineinstancepresets.admission.kubevirt.io/exclude";
/// A cluster annotates a VMI with this and the name of each preset that was applied.
const APPLIED_PREFIX: &str = "virtualmachinepreset.kubevirt.io/";

/// The presets of a file.
#[derive(Debug, Default)]
pub(super) struct Presets(Vec<Preset>);

#[derive(Debug)]
struct Preset {
    namespace: String,
    name: String,
    /// The labels that a VMI must have. Expressions of a selector count as met.
    labels: Map<String, Value>,
}

impl Presets {
    pub(super) fn of_objects(objects: &[FileObject<'_>]) -> Self {
        let presets = objects
            .iter()
            .filter(|object| object.kind() == Some(PRESET))
            .filter_map(|object| {
                let text = |field: &str| object.value.pointer(field).and_then(Value::as_str);
                let labels = object.value.pointer("/spec/selector/matchLabels");
                Some(Preset {
                    namespace: text("/metadata/namespace")
                        .unwrap_or(DEFAULT_NAMESPACE)
                        .to_owned(),
                    name: text("/metadata/name")?.to_owned(),
                    labels: labels
                        .and_then(Value::as_object)
                        .cloned()
                        .unwrap_or_default(),
                })
            });
        Self(presets.collect())
    }

    /// A note for each preset that a cluster would apply to the VMI.
    pub(super) fn notes(&self, vmi: &Vmi) -> Vec<Note> {
        if vmi.annotation(EXCLUSION) == Some("true") {
            return Vec::new();
        }
        let labels = vmi.value().pointer("/metadata/labels");
        let selects = |preset: &&Preset| {
            let mut wanted = preset.labels.iter();
            let is_applied = vmi
                .annotation(&format!("{APPLIED_PREFIX}{}", preset.name))
                .is_some();
            preset.namespace == vmi.namespace()
                && !is_applied
                && wanted
                    .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        };
        let note = |preset: &Preset| {
            Note::not_applied(format!(
                "the {PRESET} {} is not applied: write what it sets into the VM, or give the VirtualMachineInstance (kubectl get vmi \
                 NAME -o yaml)",
                preset.name
            ))
        };
        self.0.iter().filter(selects).map(note).collect()
    }
}
