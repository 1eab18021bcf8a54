//! Instance types and preferences: those that KubeVirt installs, those of a file, and how they become a part of a VMI.

mod apply_instance_type;
mod apply_preference;
mod cpu_topology;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kubevirt_api::strict_json_or_yaml;
use serde_json::{Map, Value};

use super::Note;
use super::manifest_error::{ManifestError, other_format};
use super::objects_of_file::{self, FileObject};
use super::stored_form;

/// The table of those that KubeVirt installs; its head describes the format.
const INSTALLED: &str = include_str!("of_kubevirt.txt");
/// The kinds of instance types and of preferences, in lower case: of a namespace and of the cluster, in the singular and
/// the plural.
const INSTANCE_TYPE_KINDS: [(&str, &str); 2] = [
    ("virtualmachineinstancetype", "virtualmachineinstancetypes"),
    (
        "virtualmachineclusterinstancetype",
        "virtualmachineclusterinstancetypes",
    ),
];
const PREFERENCE_KINDS: [(&str, &str); 2] = [
    ("virtualmachinepreference", "virtualmachinepreferences"),
    (
        "virtualmachineclusterpreference",
        "virtualmachineclusterpreferences",
    ),
];

type Object = Map<String, Value>;

/// Whether something is an instance type or a preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    InstanceType,
    Preference,
}

/// The key of an instance type or a preference. The namespace is `None` for one of the cluster, and empty if the file does
/// not say it: then it is where the VM is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    what: What,
    namespace: Option<String>,
    name: String,
}

/// Instance types and preferences in addition to those that KubeVirt installs.
#[derive(Debug, Clone, Default)]
pub(crate) struct InstanceTypes(Arc<BTreeMap<Key, TypeOrPreference>>);

/// An instance type or a preference of a file.
#[derive(Debug, Clone)]
struct TypeOrPreference {
    /// The object's kind and name.
    title: String,
    spec: Object,
}

static OF_KUBEVIRT: LazyLock<BTreeMap<Key, Object>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    let lines = INSTALLED.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut parts = line.splitn(3, ' ');
        let (Some(what), Some(names), Some(spec)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let what = match what {
            "instancetype" => What::InstanceType,
            _ => What::Preference,
        };
        let spec: Object = serde_json::from_str(spec).unwrap_or_default();
        for name in names.split(',') {
            let key = Key {
                what,
                namespace: None,
                name: name.to_owned(),
            };
            all.insert(key, spec.clone());
        }
    }
    all
});

/// Whether a VM takes something from an instance type and from a preference.
#[derive(Debug, Clone, Default)]
pub(super) struct Expansion {
    instance_type: Option<Object>,
    preference: Option<Object>,
    /// Annotations that name them.
    annotations: Vec<(&'static str, String)>,
    pub(super) has_instance_type: bool,
    /// The kinds and names of those that are in the file of the VM.
    pub(super) used: Vec<String>,
    /// Notes about those that a cluster takes from a volume.
    pub(super) notes: Vec<Note>,
}

impl InstanceTypes {
    /// Reads the instance types and preferences of a file.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ManifestError> {
        if let Some(format) = other_format(bytes) {
            return Err(ManifestError::OtherFormat(format));
        }
        let documents = strict_json_or_yaml::documents(bytes)?;
        let found = Self::of_objects(&objects_of_file::objects(&documents));
        match found.0.is_empty() {
            true => Err(ManifestError::NoInstanceTypes),
            false => Ok(found),
        }
    }

    /// Those among the objects of a file.
    pub(super) fn of_objects(objects: &[FileObject<'_>]) -> Self {
        let found = objects.iter().filter_map(|object| {
            let kind = object.kind()?.to_lowercase();
            let (what, is_of_cluster) = what(&kind)?;
            let metadata = object.value.get("metadata")?;
            let text = |field: &str| metadata.get(field).and_then(Value::as_str);
            let namespace = text("namespace").unwrap_or_default();
            let key = Key {
                what,
                namespace: (!is_of_cluster).then(|| namespace.to_owned()),
                name: text("name")?.to_owned(),
            };
            let entry = TypeOrPreference {
                title: format!("{} {}", object.kind()?, key.name),
                spec: object.value.get("spec")?.as_object()?.clone(),
            };
            Some((key, entry))
        });
        Self(Arc::new(found.collect()))
    }

    fn find(&self, key: &Key) -> Option<&TypeOrPreference> {
        let anywhere = || {
            let namespace = key.namespace.as_ref().map(|_| String::new());
            self.0.get(&Key {
                namespace,
                ..key.clone()
            })
        };
        self.0.get(key).or_else(anywhere)
    }
}

/// What a kind is, and whether it is of the cluster.
fn what(kind: &str) -> Option<(What, bool)> {
    let kinds = [
        (What::InstanceType, INSTANCE_TYPE_KINDS),
        (What::Preference, PREFERENCE_KINDS),
    ];
    kinds
        .into_iter()
        .find_map(|(what, [of_namespace, of_cluster])| {
            let is = |(singular, plural): (&str, &str)| kind == singular || kind == plural;
            match (is(of_namespace), is(of_cluster)) {
                (true, _) => Some((what, false)),
                (_, true) => Some((what, true)),
                _ => None,
            }
        })
}

impl Expansion {
    /// What a VirtualMachine refers to, looked up in all that is known here, in this order: the sources, KubeVirt's own.
    pub(super) fn of_vm(
        vm: &Value,
        namespace: &str,
        sources: [&InstanceTypes; 2],
    ) -> Result<Self, ManifestError> {
        let mut expansion = Self::default();
        for what in [What::InstanceType, What::Preference] {
            let Some(matcher) = vm.pointer(what.path()).and_then(Value::as_object) else {
                continue;
            };
            expansion.has_instance_type |= what == What::InstanceType;
            let name = matcher
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if let ("", Some(Value::String(volume))) = (name, matcher.get("inferFromVolume")) {
                expansion.notes.push(inferred(what, volume));
                continue;
            }
            let (key, spec, title) = found(what, name, matcher, namespace, sources)?;
            expansion.used.extend(title);
            let annotation = what.annotation(key.namespace.is_none());
            expansion.annotations.push((annotation, key.name));
            let slot = match what {
                What::InstanceType => &mut expansion.instance_type,
                What::Preference => &mut expansion.preference,
            };
            *slot = Some(spec);
        }
        Ok(expansion)
    }

    /// Sets what the API server takes from a preference when it stores a VirtualMachine: architecture and machine type.
    pub(super) fn set_in_template(&self, spec: &mut Object) {
        if let Some(preference) = &self.preference {
            apply_preference::set_architecture(preference, spec);
            apply_preference::set_machine_type(preference, spec);
        }
    }

    /// Sets the preferred devices that are there without being named, before defaults add others.
    pub(super) fn set_attached_devices(&self, spec: &mut Object) {
        if let Some(preference) = &self.preference {
            apply_preference::set_attached_devices(preference, spec);
        }
    }

    /// Applies instance type and preference to the spec and the metadata of a VMI.
    pub(super) fn apply(
        &self,
        spec: &mut Object,
        metadata: &mut Object,
    ) -> Result<(), ManifestError> {
        // Of an instance type whose name only the cluster knows, the size is not known either.
        let has_size = !self.has_instance_type || self.instance_type.is_some();
        if let Some(preference) = self.preference.as_ref().filter(|_| has_size) {
            cpu_topology::check_requirements(preference, self.instance_type.as_ref(), spec)?;
        }
        if !self.annotations.is_empty()
            && let Some(annotations) = super::kubevirt_defaults::child(metadata, "annotations")
        {
            for (name, value) in &self.annotations {
                annotations.insert((*name).to_owned(), value.clone().into());
            }
        }
        if let Some(instance_type) = &self.instance_type {
            let preference = self.preference.as_ref();
            apply_instance_type::apply(instance_type, preference, spec, metadata)?;
        }
        if let Some(preference) = &self.preference {
            apply_preference::apply(preference, spec, metadata);
        }
        // Their quantities are as people wrote them.
        let mut stored = Value::Object(std::mem::take(spec));
        stored_form::store(&mut stored, "VirtualMachineInstanceSpec");
        if let Value::Object(stored) = stored {
            *spec = stored;
        }
        Ok(())
    }
}

impl What {
    /// Where a VirtualMachine refers to it.
    fn path(self) -> &'static str {
        match self {
            Self::InstanceType => "/spec/instancetype",
            Self::Preference => "/spec/preference",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::InstanceType => "instance type",
            Self::Preference => "preference",
        }
    }

    /// The reason of the condition that virt-controller sets if it does not find it.
    fn condition(self) -> &'static str {
        match self {
            Self::InstanceType => "FailedFindInstancetype",
            Self::Preference => "FailedFindPreference",
        }
    }

    fn annotation(self, is_of_cluster: bool) -> &'static str {
        match (self, is_of_cluster) {
            (Self::InstanceType, false) => "kubevirt.io/instancetype-name",
            (Self::InstanceType, true) => "kubevirt.io/cluster-instancetype-name",
            (Self::Preference, false) => "kubevirt.io/preference-name",
            (Self::Preference, true) => "kubevirt.io/cluster-preference-name",
        }
    }
}

/// The note about a name that only the cluster knows. Such a VM is not refused: a cluster finds the name.
fn inferred(what: What, volume: &str) -> Note {
    Note::not_applied(format!(
        "its {} is not applied: the cluster takes its name from the claim of the volume {volume}; name it, or give the \
         VirtualMachineInstance (kubectl get vmi NAME -o yaml)",
        what.name()
    ))
}

/// What a matcher of a VirtualMachine refers to, with its title if it is in the first source, which is the file of the VM.
fn found(
    what: What,
    name: &str,
    matcher: &Object,
    namespace: &str,
    sources: [&InstanceTypes; 2],
) -> Result<(Key, Object, Option<String>), ManifestError> {
    let not_found = |reason: String| {
        Err(ManifestError::NotFound {
            condition: what.condition(),
            what: what.name(),
            reason,
        })
    };
    if name.is_empty() {
        return not_found("has no name".to_owned());
    }
    let kind = matcher.get("kind").and_then(Value::as_str);
    let kind = kind.unwrap_or_default().to_lowercase();
    let of_kind = match kind.is_empty() {
        true => Some((what, true)),
        false => self::what(&kind).filter(|(of_kind, _)| *of_kind == what),
    };
    let Some((_, is_of_cluster)) = of_kind else {
        return not_found(format!("has the kind {kind}, which there is not"));
    };
    let key = Key {
        what,
        namespace: (!is_of_cluster).then(|| namespace.to_owned()),
        name: name.to_owned(),
    };
    let [of_file, others] = sources;
    if let Some(TypeOrPreference { title, spec }) = of_file.find(&key) {
        return Ok((key, spec.clone(), Some(title.clone())));
    }
    let spec = others.find(&key).map(|entry| &entry.spec);
    match spec.or_else(|| OF_KUBEVIRT.get(&key)) {
        Some(spec) => Ok((key, spec.clone(), None)),
        None => not_found(format!(
            "{name} is not one that KubeVirt 1.9 installs; give its file with --instancetypes, what `virtctl expand --vm NAME` \
             prints, or the VirtualMachineInstance (kubectl get vmi NAME -o yaml)"
        )),
    }
}

#[cfg(test)]
mod tests;
