//! Notes about what looks like a mistake in a manifest: unknown fields, annotations and labels that the VMI does not
//! get, and a guest without memory.

use hook_host::printable;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::{VM, VMI, known_fields};

/// How much a note matters. The order is that in which notes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Importance {
    /// The domain differs from that of a cluster.
    Differs,
    /// It looks like a mistake.
    Mistake,
    /// Something that hooks do not see.
    Unseen,
    /// Where the VMI comes from. This is no warning.
    Origin,
}

/// A note for the author of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) importance: Importance,
    pub(crate) text: String,
    /// Notes with the same subject are told once, however their texts differ.
    pub(crate) subject: Option<&'static str>,
}

impl Note {
    fn new(importance: Importance, text: String) -> Self {
        Self {
            importance,
            text,
            subject: None,
        }
    }

    pub(crate) fn not_applied(text: String) -> Self {
        Self::new(Importance::Differs, text)
    }

    /// A note about a part of the domain that differs. For a list of VMs, notes with the same subject are told once.
    pub(crate) fn differs(subject: &'static str, text: String) -> Self {
        Self {
            subject: Some(subject),
            ..Self::new(Importance::Differs, text)
        }
    }

    fn mistake(text: String) -> Self {
        Self::new(Importance::Mistake, text)
    }

    pub(crate) fn origin(text: String) -> Self {
        Self::new(Importance::Origin, text)
    }
}

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
    let notes = match object.get("kind").and_then(Value::as_str) {
        Some(VM) => {
            let mut notes = unknown_fields(object, VM);
            notes.extend(metadata_outside_template(object));
            notes
        }
        _ => unknown_fields(object, VMI),
    };
    notes.into_iter().map(|note| note.text).collect()
}

/// One note per unknown field: newer versions of KubeVirt have more fields, so none is an error.
pub(super) fn unknown_fields(object: &Value, kind: &str) -> Vec<Note> {
    let unknown = known_fields::unknown(object, kind);
    let omitted = unknown.len().saturating_sub(MAX_FIELDS);
    let shown = unknown.iter().take(MAX_FIELDS);
    let mut notes: Vec<String> = shown.map(known_fields::UnknownField::note).collect();
    if omitted > 0 {
        notes.push(format!("{omitted} more fields are unknown to KubeVirt 1.9"));
    }
    notes.into_iter().map(Note::mistake).collect()
}

/// A note about annotations and labels of the VM itself, which its VMI does not get: they are perhaps meant for the VMI.
/// A label without a domain, such as `app`, is for selectors.
pub(super) fn metadata_outside_template(vm: &Value) -> Option<Note> {
    let outside = |field: &str| -> Vec<String> {
        let keys = |path: &str| vm.pointer(&format!("{path}/{field}"))?.as_object();
        let of_template = keys("/spec/template/metadata");
        let of_vm = keys("/metadata").into_iter().flatten().map(|(key, _)| key);
        let outside = of_vm.filter(|key| {
            !of_template.is_some_and(|known| known.contains_key(*key))
                && !is_set_by_tools(key)
                && (field == "annotations" || key.contains('/'))
        });
        outside.map(|key| printable(key, MAX_KEY)).collect()
    };
    let list = |field: &str| {
        let keys = outside(field);
        let omitted = match keys.len().saturating_sub(MAX_FIELDS) {
            0 => String::new(),
            omitted => format!(" and {omitted} more"),
        };
        let shown: Vec<&str> = keys.iter().take(MAX_FIELDS).map(String::as_str).collect();
        (!keys.is_empty()).then(|| format!("{}{omitted}", shown.join(", ")))
    };
    let (first, keys, labels) = match (list("annotations"), list("labels")) {
        (None, None) => return None,
        (None, Some(labels)) => ("labels", labels, String::new()),
        (Some(annotations), None) => ("annotations", annotations, String::new()),
        (Some(annotations), Some(labels)) => (
            "annotations",
            annotations,
            format!("; nor its metadata.labels: {labels}"),
        ),
    };
    Some(Note {
        importance: Importance::Unseen,
        text: format!(
            "metadata.{first} of the VirtualMachine are not those of its VMI, and hooks do not see them: {keys}{labels}; those \
             for hooks belong in spec.template.metadata"
        ),
        subject: Some("metadata outside the template"),
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
pub(super) fn missing_memory(vmi: &Vmi) -> Option<Note> {
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
        return Some(Note::mistake(format!(
            "spec.domain.memory.guest is missing: {no_memory}"
        )));
    }
    let domain = &vmi.spec.domain;
    let guest = domain.memory.as_ref().and_then(|memory| memory.guest);
    let of_pod = || {
        let (requests, limits) = (&domain.resources.requests, &domain.resources.limits);
        let memory = requests.get("memory").or_else(|| limits.get("memory"));
        memory.copied()
    };
    let amount = guest.or_else(of_pod)?;
    (amount.memory_bytes() == Ok(0)).then(|| {
        Note::mistake(format!(
            "the memory of the guest is less than a byte: {no_memory}"
        ))
    })
}
