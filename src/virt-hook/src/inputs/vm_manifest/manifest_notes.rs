//! Notes about what looks like a mistake in a manifest: unknown fields, annotations and labels that the VMI does not
//! get, and a guest without memory.

use hook_host::printable;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::{VM, VMI, known_fields};

/// Maximum number of unknown fields of a VMI, and of annotations or labels, that a note names.
const MAX_FIELDS: usize = 10;
/// The domains of annotations and labels that tools set in VMs themselves.
const TOOL_DOMAINS: [&str; 8] = [
    "kubernetes.io",
    "kubevirt.io",
    "vm.kubevirt.io",
    "instancetype.kubevirt.io",
    "template.kubevirt.io",
    "kubemacpool.io",
    "helm.sh",
    "meta.helm.sh",
];
const TOOL_DOMAIN_SUFFIXES: [&str; 2] = [".kubernetes.io", ".template.kubevirt.io"];
/// Maximum number of bytes of a key that a note shows.
const MAX_KEY: usize = 120;

/// Notes about fields of a VirtualMachineInstance or a VirtualMachine that KubeVirt's API does not have, and about
/// annotations and labels of a VirtualMachine that hooks do not see.
pub(crate) fn notes_about_fields(object: &Value) -> Vec<String> {
    match object.get("kind").and_then(Value::as_str) {
        Some(VM) => {
            let mut notes = unknown_fields(object, VM);
            notes.extend(metadata_outside_template(object));
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

/// Notes about annotations and labels of a VM itself.
pub(super) fn metadata_outside_template(vm: &Value) -> impl Iterator<Item = String> {
    ["annotations", "labels"]
        .into_iter()
        .filter_map(|field| outside_template(vm, field))
}

/// A note about annotations or labels of the VM itself, which its VMI does not get: they are perhaps meant for the VMI.
fn outside_template(vm: &Value, field: &str) -> Option<String> {
    let keys = |path: &str| vm.pointer(&format!("{path}/{field}"))?.as_object();
    let of_template = keys("/spec/template/metadata");
    let is_outside = |key: &&String| of_template.is_none_or(|known| !known.contains_key(*key));
    let outside = keys("/metadata")?.keys().filter(is_outside);
    let outside: Vec<_> = outside.filter(|key| !is_set_by_tools(key)).collect();
    let shown = outside
        .iter()
        .take(MAX_FIELDS)
        .map(|key| printable(key, MAX_KEY));
    let shown: Vec<String> = shown.collect();
    let omitted = match outside.len().saturating_sub(MAX_FIELDS) {
        0 => String::new(),
        omitted => format!(" and {omitted} more"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "metadata.{field} of the VirtualMachine are not those of its VMI, and hooks do not see them: {}{omitted}; those for hooks \
             belong in spec.template.metadata.{field}",
            shown.join(", ")
        )
    })
}

/// Whether an annotation or label is one that tools set in VMs themselves: kubectl, KubeVirt, Helm.
fn is_set_by_tools(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    // Hooks have annotations below kubevirt.io, such as smbios.vm.kubevirt.io, so subdomains do not count in general.
    TOOL_DOMAINS.contains(&domain)
        || TOOL_DOMAIN_SUFFIXES
            .iter()
            .any(|suffix| domain.ends_with(suffix))
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
