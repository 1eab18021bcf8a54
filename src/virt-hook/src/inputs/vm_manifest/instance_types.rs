//! Instance types and preferences: those that KubeVirt installs, those of a file, and how they become a part of a VMI.

mod apply_preference;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kubevirt_api::strict_json_or_yaml;
use kubevirt_api::vmi::Quantity;
use serde_json::{Map, Value};

use super::super::vm_manifest;
use super::{FileObject, ManifestError, Note, known_fields, other_format};
use crate::inputs::vm_manifest::kubevirt_defaults::{child, domain, is_set};

/// The table of those that KubeVirt installs; its head describes the format.
const INSTALLED: &str = include_str!("instance_types/of_kubevirt.txt");
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
        let found = Self::of_objects(&vm_manifest::objects(&documents));
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
            check_requirements(preference, self.instance_type.as_ref(), spec)?;
        }
        if !self.annotations.is_empty()
            && let Some(annotations) = child(metadata, "annotations")
        {
            for (name, value) in &self.annotations {
                annotations.insert((*name).to_owned(), value.clone().into());
            }
        }
        if let Some(instance_type) = &self.instance_type {
            let preference = self.preference.as_ref();
            apply_instance_type(instance_type, preference, spec, metadata)?;
        }
        if let Some(preference) = &self.preference {
            apply_preference::apply(preference, spec, metadata);
        }
        // Their quantities are as people wrote them.
        let mut stored = Value::Object(std::mem::take(spec));
        known_fields::store(&mut stored, "VirtualMachineInstanceSpec");
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

fn apply_instance_type(
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
    let topology = topology(vcpus.unwrap_or(1), preference)?;
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

// How a preference spreads the processors of an instance type over sockets, cores and threads, and what it requires
// (`pkg/instancetype/apply/cpu.go`, `pkg/instancetype/preference`).

const DEFAULT_RATIO: u64 = 2;
const THREADS_PER_CORE: u64 = 2;

/// Numbers of sockets, cores and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTopology {
    sockets: u64,
    cores: u64,
    threads: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Across {
    SocketsCores,
    CoresThreads,
    SocketsCoresThreads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preferred {
    Sockets,
    Cores,
    Threads,
    Any,
    Spread(Across, u64),
}

fn preferred(preference: Option<&Object>) -> Preferred {
    let text = |path: &str| pointer(preference?, path)?.as_str();
    match text("/cpu/preferredCPUTopology") {
        Some("cores" | "preferCores") => Preferred::Cores,
        Some("threads" | "preferThreads") => Preferred::Threads,
        Some("any" | "preferAny") => Preferred::Any,
        Some("spread" | "preferSpread") => {
            let number = |path: &str| pointer(preference?, path)?.as_u64();
            let ratio = number("/cpu/spreadOptions/ratio")
                .or_else(|| number("/preferSpreadSocketToCoreRatio"))
                .filter(|ratio| *ratio > 0);
            let across = match text("/cpu/spreadOptions/across") {
                Some("CoresThreads") => Across::CoresThreads,
                Some("SocketsCoresThreads") => Across::SocketsCoresThreads,
                _ => Across::SocketsCores,
            };
            Preferred::Spread(across, ratio.unwrap_or(DEFAULT_RATIO))
        }
        _ => Preferred::Sockets,
    }
}

/// The topology of an instance type's processors.
fn topology(vcpus: u64, preference: Option<&Object>) -> Result<CpuTopology, ManifestError> {
    let mut topology = CpuTopology {
        sockets: 1,
        cores: 1,
        threads: 1,
    };
    let preferred = preferred(preference);
    let divisor = match preferred {
        Preferred::Spread(Across::SocketsCoresThreads, ratio) => {
            ratio.saturating_mul(THREADS_PER_CORE)
        }
        Preferred::Spread(_, ratio) => ratio,
        _ => 1,
    };
    if !vcpus.is_multiple_of(divisor) {
        return Err(ManifestError::InstanceType(format!(
            "its instance type has {vcpus} vCPUs, which its preference cannot spread: they are no multiple of {divisor}"
        )));
    }
    if vcpus == 1 {
        return Ok(topology);
    }
    match preferred {
        Preferred::Cores => topology.cores = vcpus,
        Preferred::Threads => topology.threads = vcpus,
        Preferred::Sockets | Preferred::Any => topology.sockets = vcpus,
        Preferred::Spread(Across::SocketsCores, ratio) => {
            topology.cores = ratio;
            topology.sockets = vcpus / ratio;
        }
        Preferred::Spread(Across::CoresThreads, ratio) => {
            topology.threads = ratio;
            topology.cores = vcpus / ratio;
        }
        Preferred::Spread(Across::SocketsCoresThreads, ratio) => {
            topology.threads = THREADS_PER_CORE;
            topology.cores = ratio;
            topology.sockets = vcpus / THREADS_PER_CORE / ratio;
        }
    }
    Ok(topology)
}

/// Refuses a VM with less than its preference requires.
fn check_requirements(
    preference: &Object,
    instance_type: Option<&Object>,
    spec: &Object,
) -> Result<(), ManifestError> {
    let Some(requirements) = preference.get("requirements") else {
        return Ok(());
    };
    let refused = |reason: String| Err(ManifestError::InstanceType(reason));
    let wants = |what: &str| format!("its preference requires {what}");
    if let Some(required) = requirements.pointer("/cpu/guest").and_then(Value::as_u64) {
        let vcpus = match instance_type {
            Some(instance_type) => pointer(instance_type, "/cpu/guest").and_then(Value::as_u64),
            None => Some(vcpus_of_vm(preference, spec)),
        };
        let vcpus = vcpus.unwrap_or(0);
        if vcpus < required {
            let wants = wants(&format!("{required} vCPUs"));
            return refused(format!("{wants}, and the VM has {vcpus}"));
        }
    }
    let quantity = |value: &Value| serde_json::from_value::<Quantity>(value.clone()).ok();
    if let Some(required) = requirements.pointer("/memory/guest").and_then(quantity) {
        let of_vm = pointer(spec, "/domain/memory/guest").and_then(quantity);
        let of_type = || pointer(instance_type?, "/memory/guest").and_then(quantity);
        let memory = of_vm.or_else(of_type).unwrap_or_default();
        if memory.value() < required.value() {
            let wants = wants(&format!("{required} of memory"));
            return refused(format!("{wants}, and the VM has {memory}"));
        }
    }
    if let Some(required) = requirements.get("architecture").and_then(Value::as_str) {
        let architecture = spec.get("architecture").and_then(Value::as_str);
        let architecture = architecture.unwrap_or_default();
        if architecture != required {
            let wants = wants(&format!("the architecture {required}"));
            return refused(format!("{wants}, and the VM has {architecture}"));
        }
    }
    Ok(())
}

/// The processors that a VM without an instance type has in the places that the preference wants.
fn vcpus_of_vm(preference: &Object, spec: &Object) -> u64 {
    let count = |field: &str| {
        pointer(spec, &format!("/domain/cpu/{field}"))
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    let product = |fields: &[&str]| {
        let counts = fields.iter().map(|field| count(field));
        counts.fold(1, u64::saturating_mul)
    };
    match preferred(Some(preference)) {
        Preferred::Sockets => count("sockets"),
        Preferred::Cores => count("cores"),
        Preferred::Threads => count("threads"),
        Preferred::Spread(Across::SocketsCores, _) => product(&["sockets", "cores"]),
        Preferred::Spread(Across::CoresThreads, _) => product(&["cores", "threads"]),
        Preferred::Any | Preferred::Spread(Across::SocketsCoresThreads, _) => {
            product(&["sockets", "cores", "threads"])
        }
    }
}

/// The value at a JSON pointer in an object.
fn pointer<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let (first, rest) = match path[1..].split_once('/') {
        Some((first, rest)) => (first, format!("/{rest}")),
        None => (&path[1..], String::new()),
    };
    object.get(first)?.pointer(&rest)
}

#[cfg(test)]
mod tests;
