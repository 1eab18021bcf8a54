//! Notes about what looks like a mistake in a manifest: unknown fields, and a guest without memory.

use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::{VM, VMI, known_fields, vmi_of_virtual_machine};

/// Maximum number of unknown fields of a VMI that are named.
pub(super) const MAX_FIELDS: usize = 10;

/// Notes about fields of a VirtualMachineInstance or a VirtualMachine that KubeVirt's API does not have, and about
/// annotations and labels of a VirtualMachine that hooks do not see.
pub(crate) fn notes_about_fields(object: &Value) -> Vec<String> {
    match object.get("kind").and_then(Value::as_str) {
        Some(VM) => {
            let mut notes = unknown_fields(object, VM);
            notes.extend(vmi_of_virtual_machine::metadata_outside_template(object));
            notes
        }
        _ => unknown_fields(object, VMI),
    }
}

/// One note per unknown field: newer versions of KubeVirt have more fields, so none is an error.
pub(super) fn unknown_fields(object: &Value, kind: &str) -> Vec<String> {
    let unknown = known_fields::unknown(object, kind);
    let omitted = unknown.len().saturating_sub(MAX_FIELDS);
    let shown = unknown.iter().take(MAX_FIELDS);
    let mut notes: Vec<String> = shown.map(known_fields::UnknownField::note).collect();
    if omitted > 0 {
        notes.push(format!("{omitted} more fields are unknown to KubeVirt 1.9"));
    }
    notes
}

/// A note about a guest without memory, which libvirt would refuse.
pub(super) fn missing_memory(vmi: &Vmi) -> Option<String> {
    let is_set = |field: &str| {
        let memory = vmi.value().pointer(&format!("/spec/domain/{field}"));
        memory.is_some_and(|memory| !memory.is_null())
    };
    let memory_fields = [
        "memory/guest",
        "resources/requests/memory",
        "resources/limits/memory",
    ];
    let no_memory = "the domain has no memory, and libvirt would refuse it";
    if !memory_fields.into_iter().any(is_set) {
        return Some(format!("spec.domain.memory.guest is missing: {no_memory}"));
    }
    let domain = &vmi.spec.domain;
    let guest = domain.memory.as_ref().and_then(|memory| memory.guest);
    let of_pod = || {
        let (requests, limits) = (&domain.resources.requests, &domain.resources.limits);
        let memory = requests.get("memory").or_else(|| limits.get("memory"));
        memory.copied()
    };
    let amount = guest.or_else(of_pod)?;
    (amount.memory_bytes() == Ok(0))
        .then(|| format!("the memory of the guest is less than a byte: {no_memory}"))
}
