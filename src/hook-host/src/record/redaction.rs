//! Removes values that may be secret from records: cloud-init data, facts about the pod, and log lines.

use serde_json::Value;

use super::record_json_format::Record;
use crate::HookPoint;
use crate::pod_facts::PodFactEntry;

/// The members of cloud-init volumes that contain data rather than the name of a Secret.
const CLOUD_INIT_DATA_FIELDS: [&str; 4] = [
    "userData",
    "userDataBase64",
    "networkData",
    "networkDataBase64",
];
const CLOUD_INIT_VOLUMES: [&str; 2] = ["cloudInitNoCloud", "cloudInitConfigDrive"];
/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces cloud-init data, and facts whose recording is not allowed, by placeholders. `withheld` lists the removed
/// values.
pub(super) fn redact(record: &mut Record) {
    let mut withheld = Vec::new();
    if let Ok(mut vmi) = serde_json::from_str::<Value>(&record.input.vmi) {
        redact_vmi(&mut vmi, &mut withheld);
        if !withheld.is_empty() {
            record.input.vmi = vmi.to_string();
        }
    }
    let output_documents = record
        .output
        .as_mut()
        .and_then(|output| output.documents.as_mut());
    for (side, documents) in [
        ("input", record.input.documents.as_mut()),
        ("output", output_documents),
    ] {
        for (name, text) in documents.into_iter().flatten() {
            withheld.push(format!("{side}: {name}"));
            *text = placeholder(text);
        }
    }
    let reads_secret_facts = record
        .input
        .pod
        .iter()
        .any(PodFactEntry::is_withheld_secret);
    for read in &mut record.input.pod {
        if let Some(value) = read.value.as_mut().filter(|_| !read.may_be_recorded) {
            withheld.push(format!("input: the pod's {}", read.fact));
            *value = placeholder(value);
        }
    }
    // A hook can log the cloud-init data or annotations that it reads.
    let reads_secrets =
        reads_secret_facts || record.hook_point == HookPoint::PreCloudInitIso.name();
    if reads_secrets && !record.log.is_empty() {
        withheld.push(format!("log: {} lines", record.log.len()));
        for line in &mut record.log {
            line.message = placeholder(&line.message);
        }
    }
    record.withheld = withheld;
}

fn redact_vmi(vmi: &mut Value, withheld: &mut Vec<String>) {
    if let Some(copy) = vmi
        .pointer_mut("/metadata/annotations")
        .and_then(|annotations| annotations.get_mut(LAST_APPLIED_ANNOTATION))
    {
        redact_value(
            copy,
            format!("vmi: the annotation {LAST_APPLIED_ANNOTATION}"),
            withheld,
        );
    }
    let volumes = vmi
        .pointer_mut("/spec/volumes")
        .and_then(Value::as_array_mut);
    for (index, volume) in volumes.into_iter().flatten().enumerate() {
        for kind in CLOUD_INIT_VOLUMES {
            for member in CLOUD_INIT_DATA_FIELDS {
                if let Some(text) = volume
                    .get_mut(kind)
                    .and_then(|volume| volume.get_mut(member))
                {
                    let path = format!("vmi: spec.volumes[{index}].{kind}.{member}");
                    redact_value(text, path, withheld);
                }
            }
        }
    }
}

fn redact_value(value: &mut Value, path: String, withheld: &mut Vec<String>) {
    let text = value.as_str().unwrap_or_default();
    *value = placeholder(text).into();
    withheld.push(path);
}

fn placeholder(text: &str) -> String {
    format!("(withheld: {} bytes)", text.len())
}
