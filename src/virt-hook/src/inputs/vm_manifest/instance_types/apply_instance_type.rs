//! Applies an instance type to a VMI (`pkg/instancetype/apply`). A field that both set is a conflict.

use kubevirt_api::vmi::Quantity;
use serde_json::Value;

use super::Object;
use super::cpu_topology::{self, pointer};
use crate::inputs::vm_manifest::kubevirt_defaults::{child, domain, is_set};
use crate::inputs::vm_manifest::manifest_error::ManifestError;

/// Where the VMI's spec is in a VirtualMachine.
const TEMPLATE_SPEC: &str = "spec.template.spec";
/// Fields of an instance type, and of the VMI, that are copied: a conflict if the VMI has its own.
const COPIED: [(&str, &str); 11] = [
    ("/nodeSelector", "/nodeSelector"),
    ("/schedulerName", "/schedulerName"),
    ("/cpu/model", "/domain/cpu/model"),
    ("/cpu/numa", "/domain/cpu/numa"),
    ("/cpu/realtime", "/domain/cpu/realtime"),
    ("/memory/hugepages", "/domain/memory/hugepages"),
    ("/memory/maxGuest", "/domain/memory/maxGuest"),
    (
        "/ioThreads/supplementalPoolThreadCount",
        "/domain/ioThreads/supplementalPoolThreadCount",
    ),
    ("/ioThreadsPolicy", "/domain/ioThreadsPolicy"),
    ("/launchSecurity", "/domain/launchSecurity"),
    ("/cpu/maxSockets", "/domain/cpu/maxSockets"),
];
/// The same for flags: a conflict if the VMI's is on.
const FLAGS: [(&str, &str); 2] = [
    (
        "/cpu/dedicatedCPUPlacement",
        "/domain/cpu/dedicatedCpuPlacement",
    ),
    (
        "/cpu/isolateEmulatorThread",
        "/domain/cpu/isolateEmulatorThread",
    ),
];
/// The same for lists: a conflict if the VMI has an element.
const LISTS: [(&str, &str); 2] = [
    ("/gpus", "/domain/devices/gpus"),
    ("/hostDevices", "/domain/devices/hostDevices"),
];
/// Fields of the VMI that every instance type decides.
const DECIDED: [&str; 8] = [
    "/domain/resources/requests/cpu",
    "/domain/resources/limits/cpu",
    "/domain/cpu/sockets",
    "/domain/cpu/cores",
    "/domain/cpu/threads",
    "/domain/memory/guest",
    "/domain/resources/requests/memory",
    "/domain/resources/limits/memory",
];
const MAX_SOCKETS: &str = "/cpu/maxSockets";

pub(super) fn apply(
    instance_type: &Object,
    preference: Option<&Object>,
    spec: &mut Object,
    metadata: &mut Object,
) -> Result<(), ManifestError> {
    let mut conflicts = conflicts(instance_type, spec);
    conflicts.extend(conflicting_annotations(instance_type, metadata));
    if !conflicts.is_empty() {
        return Err(ManifestError::InstanceType(format!(
            "it conflicts with its instance type in {}: leave these fields to the instance type",
            conflicts.join(", ")
        )));
    }
    let vcpus = pointer(instance_type, "/cpu/guest").and_then(Value::as_u64);
    let topology = cpu_topology::topology(vcpus.unwrap_or(1), preference)?;
    for (from, to) in COPIED.into_iter().chain(FLAGS).chain(LISTS) {
        if let Some(value) = pointer(instance_type, from) {
            insert_at(spec, to, value.clone());
        }
    }
    for (field, count) in [
        ("sockets", topology.sockets),
        ("cores", topology.cores),
        ("threads", topology.threads),
    ] {
        insert_at(spec, &format!("/domain/cpu/{field}"), count.into());
    }
    set_memory(instance_type, spec);
    let annotations = instance_type.get("annotations").and_then(Value::as_object);
    if let (Some(added), Some(annotations)) = (annotations, child(metadata, "annotations")) {
        annotations.extend(added.clone());
    }
    Ok(())
}

/// The paths of fields that the VMI has, and must not have.
fn conflicts(instance_type: &Object, spec: &Object) -> Vec<String> {
    let of_type = |path: &str| pointer(instance_type, path);
    let of_vmi = |path: &str| pointer(spec, path);
    let copied = COPIED
        .into_iter()
        .filter(|(from, to)| *from != MAX_SOCKETS && is_set(of_type(from)) && is_set(of_vmi(to)));
    let flags = FLAGS
        .into_iter()
        .filter(|(from, to)| is_set(of_type(from)) && of_vmi(to) == Some(&Value::Bool(true)));
    let has_elements = |list: Option<&Value>| {
        list.and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
    };
    let lists = LISTS
        .into_iter()
        .filter(|(from, to)| has_elements(of_type(from)) && has_elements(of_vmi(to)));
    let shared = copied.chain(flags).chain(lists).map(|(_, to)| to);
    let decided = DECIDED.into_iter().filter(|path| is_set(of_vmi(path)));
    decided
        .chain(shared)
        .map(|path| format!("{TEMPLATE_SPEC}{}", path.replace('/', ".")))
        .collect()
}

fn conflicting_annotations(instance_type: &Object, metadata: &Object) -> Vec<String> {
    let of_type = instance_type.get("annotations").and_then(Value::as_object);
    let of_vmi = |key: &str| metadata.get("annotations").and_then(|all| all.get(key));
    let conflicting = of_type
        .into_iter()
        .flatten()
        .filter(|(key, value)| of_vmi(key).is_some_and(|own| own != *value));
    conflicting
        .map(|(key, _)| format!("spec.template.metadata.annotations: {key}"))
        .collect()
}

/// Sets the guest's memory. An overcommitting instance type requests less for the pod.
fn set_memory(instance_type: &Object, spec: &mut Object) {
    let Some(guest) = pointer(instance_type, "/memory/guest") else {
        return;
    };
    insert_at(spec, "/domain/memory/guest", guest.clone());
    let percent = pointer(instance_type, "/memory/overcommitPercent").and_then(Value::as_i64);
    let amount = serde_json::from_value::<Quantity>(guest.clone()).ok();
    if let (Some(percent @ 1..), Some(amount)) = (percent, amount) {
        // Rounded as KubeVirt does, which computes with 32 bits.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
        let requested = (amount.value() as f32 * (1.0 - percent as f32 / 100.0)) as i64;
        let requested = Quantity::from_units(requested).to_string();
        insert_at(spec, "/domain/resources/requests/memory", requested.into());
    }
}

/// Sets the value at a JSON pointer. Missing objects are created.
fn insert_at(spec: &mut Object, path: &str, value: Value) {
    let Some((parents, field)) = path.rsplit_once('/') else {
        return;
    };
    domain(spec);
    let mut object = spec;
    for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
        match child(object, parent) {
            Some(next) => object = next,
            None => return,
        }
    }
    object.insert(field.to_owned(), value);
}
