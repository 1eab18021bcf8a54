//! The defaults that a KubeVirt 1.9 cluster with the default configuration sets in VirtualMachines and VMIs
//! (`pkg/defaults`, `api/core/v1/defaults.go`, `pkg/virt-controller/watch/vm`).

mod feature_states;
mod hyperv_dependencies;

use std::collections::HashSet;

use kubevirt_api::vmi::Quantity;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

type Object = Map<String, Value>;

pub(super) const ARM64: &str = "arm64";
pub(super) const S390X: &str = "s390x";
const PCI_TOPOLOGY_ANNOTATION: &str = "kubevirt.io/pci-topology-version";
const PCI_TOPOLOGY_VERSION: &str = "v3";
/// The socket of the service that signs quotes of Intel TDX; the cluster's configuration can name another one.
const QUOTE_SERVICE_ANNOTATION: &str = "kubevirt.io/qgs-socket-path";
const QUOTE_SERVICE: &str = "/var/run/tdx-qgs/qgs.socket";
/// The interval between two probes in seconds, and how often one must fail before it counts.
const PROBE_PERIOD: u64 = 10;
const PROBE_FAILURES: u64 = 3;

/// Names of defaults for people, in the order in which they were set.
pub(super) type DefaultNames = Vec<&'static str>;

/// Sets what the API server sets in the template of a new VirtualMachine. `name` is `NAMESPACE/NAME`.
pub(super) fn set_in_template(
    spec: &mut Object,
    metadata: &mut Object,
    name: &str,
    architecture: &str,
) {
    set_firmware(spec, name, true);
    set_architecture(spec, architecture);
    set_machine_type(spec);
    set_pci_topology_version(spec, metadata);
}

/// Sets what virt-controller sets in the VMI of a VirtualMachine before it applies instance type and preference.
pub(super) fn set_before_instance_type(spec: &mut Object) -> DefaultNames {
    let names = [
        set_disks_of_volumes(spec).then_some("disks of volumes"),
        attach_input_device(spec).then_some("an input device"),
        set_network(spec).then_some("the network interface"),
    ];
    names.into_iter().flatten().collect()
}

/// Sets what the API server sets in a new VMI. A value of a wrong type is left alone: the VMI is refused for it later.
/// `name` is `NAMESPACE/NAME`.
pub(super) fn set_in_vmi(
    spec: &mut Object,
    metadata: &mut Object,
    name: &str,
    architecture: &str,
) -> DefaultNames {
    set_architecture(spec, architecture);
    set_machine_type(spec);
    set_cpu_request(spec);
    let mut names = vec![
        set_memory(spec).then_some("guest memory"),
        set_cpu_topology(spec).then_some("CPU sockets"),
    ];
    set_pull_policies(spec);
    set_missing(spec, "evictionStrategy", "None");
    names.push(set_network(spec).then_some("the network interface"));
    names.push(set_disks_of_volumes(spec).then_some("disks of volumes"));
    feature_states::set(spec);
    set_firmware(spec, name, false);
    names.push(set_disk_targets(spec).then_some("disk targets"));
    set_cdrom_drives(spec);
    set_match_volume(spec);
    set_display_ram_fb(spec);
    names.push(set_inputs(spec).then_some("input devices"));
    for probe in ["readinessProbe", "livenessProbe"] {
        set_probe(spec, probe);
    }
    names.push(hyperv_dependencies::set(spec).then_some("Hyper-V features that others need"));
    names.push(set_disk_buses(spec).then_some("disk buses"));
    names.push(set_watchdog_action(spec).then_some("the watchdog's action"));
    set_firmware_of_architecture(spec);
    set_cpu_model(spec);
    if architecture_of(spec) != ARM64 {
        set_hotplug_maxima(spec);
    }
    set_pci_topology_version(spec, metadata);
    set_quote_service(spec, metadata);
    if let Some(domain) = domain(spec) {
        // KubeVirt writes these also if they are empty.
        child(domain, "devices");
        child(domain, "resources");
    }
    names.into_iter().flatten().collect()
}

pub(super) fn is_set(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_null() && value != "" && value != 0)
}

/// The object `name` in an object, which is created if it is missing.
pub(super) fn child<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    if !is_set(object.get(name)) {
        object.insert(name.to_owned(), Object::new().into());
    }
    object.get_mut(name)?.as_object_mut()
}

pub(super) fn domain(spec: &mut Object) -> Option<&mut Object> {
    child(spec, "domain")
}

/// Sets a field that is missing, and returns whether it was.
pub(super) fn set_missing(object: &mut Object, field: &str, value: impl Into<Value>) -> bool {
    let is_missing = !is_set(object.get(field));
    if is_missing {
        object.insert(field.to_owned(), value.into());
    }
    is_missing
}

fn list<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    let Some((last, parents)) = path.split_last() else {
        return &[];
    };
    let parent = parents
        .iter()
        .try_fold(object, |object, name| object.get(*name)?.as_object());
    let found = parent.and_then(|parent| parent.get(*last)?.as_array());
    found.map_or(&[], Vec::as_slice)
}

pub(super) fn architecture_of(spec: &Object) -> &str {
    let architecture = spec.get("architecture").and_then(Value::as_str);
    architecture.unwrap_or_default()
}

fn set_architecture(spec: &mut Object, architecture: &str) {
    set_missing(spec, "architecture", architecture);
}

fn set_machine_type(spec: &mut Object) {
    let machine_type = match architecture_of(spec) {
        ARM64 => "virt",
        S390X => "s390-ccw-virtio",
        _ => "q35",
    };
    if let Some(machine) = domain(spec).and_then(|domain| child(domain, "machine")) {
        set_missing(machine, "type", machine_type);
    }
}

/// `SupportsPCIeHotplug`, which decides about the annotation.
fn set_pci_topology_version(spec: &mut Object, metadata: &mut Object) {
    let has_pcie_architecture = matches!(architecture_of(spec), "amd64" | ARM64);
    let machine_type = domain(spec)
        .and_then(|domain| domain.get("machine")?.get("type")?.as_str())
        .unwrap_or_default();
    let has_pcie_machine = machine_type.contains("q35") || machine_type.starts_with("virt");
    if has_pcie_architecture
        && has_pcie_machine
        && let Some(annotations) = child(metadata, "annotations")
        && !annotations.contains_key(PCI_TOPOLOGY_ANNOTATION)
    {
        let version = PCI_TOPOLOGY_VERSION.into();
        annotations.insert(PCI_TOPOLOGY_ANNOTATION.to_owned(), version);
    }
}

/// A guest in a trust domain gets its quotes from the service at a socket of the node.
fn set_quote_service(spec: &mut Object, metadata: &mut Object) {
    let has_tdx = domain(spec).is_some_and(|domain| {
        let security = domain.get("launchSecurity");
        security
            .and_then(|security| security.get("tdx"))
            .is_some_and(Value::is_object)
    });
    if has_tdx && let Some(annotations) = child(metadata, "annotations") {
        annotations.insert(QUOTE_SERVICE_ANNOTATION.to_owned(), QUOTE_SERVICE.into());
    }
}

/// An amount of the pod's resources.
fn resource(domain: &Object, list: &str, name: &str) -> Option<(Value, Quantity)> {
    let value = domain.get("resources")?.get(list)?.get(name)?;
    let amount: Quantity = serde_json::from_value(value.clone()).ok()?;
    Some((value.clone(), amount))
}

/// The same, unless it is zero.
fn resource_above_zero(domain: &Object, list: &str, name: &str) -> Option<(Value, Quantity)> {
    resource(domain, list, name).filter(|(_, amount)| !amount.is_zero())
}

/// A limit of processors is their request, too.
fn set_cpu_request(spec: &mut Object) {
    let Some(domain) = domain(spec) else { return };
    if let Some((limit, _)) = resource_above_zero(domain, "limits", "cpu")
        && resource_above_zero(domain, "requests", "cpu").is_none()
        && let Some(resources) = child(domain, "resources")
        && let Some(requests) = child(resources, "requests")
    {
        requests.insert("cpu".to_owned(), limit);
    }
}

fn set_memory(spec: &mut Object) -> bool {
    let Some(domain) = domain(spec) else {
        return false;
    };
    let page_size = || {
        let size = domain.get("memory")?.get("hugepages")?.get("pageSize")?;
        Quantity::canonical_text(size.as_str()?)
            .ok()
            .map(Value::from)
    };
    let of_pod = |list: &str| resource_above_zero(domain, list, "memory").map(|(value, _)| value);
    let default = of_pod("requests")
        .or_else(|| of_pod("limits"))
        .or_else(page_size);
    let is_missing = |memory: &Object| memory.get("guest").is_none_or(Value::is_null);
    let Some(default) = default else {
        return false;
    };
    match child(domain, "memory").filter(|memory| is_missing(memory)) {
        Some(memory) => memory.insert("guest".to_owned(), default).is_none(),
        None => false,
    }
}

/// Returns whether the number of sockets comes from the pod's resources. Without them the VMI has one CPU.
fn set_cpu_topology(spec: &mut Object) -> bool {
    let Some(domain) = domain(spec) else {
        return false;
    };
    let of_pod = |list: &str| resource(domain, list, "cpu").map(|(_, amount)| amount.value());
    let sockets = of_pod("limits").or_else(|| of_pod("requests"));
    let Some(cpu) = child(domain, "cpu") else {
        return false;
    };
    if ["cores", "sockets", "threads"]
        .iter()
        .any(|name| is_set(cpu.get(*name)))
    {
        return false;
    }
    for (name, count) in [
        ("sockets", sockets.unwrap_or(1)),
        ("cores", 1),
        ("threads", 1),
    ] {
        cpu.insert(name.to_owned(), count.into());
    }
    sockets.is_some()
}

/// arm64 passes the processor through, since KVM has no models there.
fn set_cpu_model(spec: &mut Object) {
    let model = match architecture_of(spec) {
        ARM64 => "host-passthrough",
        _ => "host-model",
    };
    if let Some(cpu) = domain(spec).and_then(|domain| child(domain, "cpu")) {
        set_missing(cpu, "model", model);
    }
}

/// A guest of arm64 boots by UEFI, without secure boot.
fn set_firmware_of_architecture(spec: &mut Object) {
    if architecture_of(spec) != ARM64 {
        return;
    }
    let Some(firmware) = domain(spec).and_then(|domain| child(domain, "firmware")) else {
        return;
    };
    if !is_set(firmware.get("bootloader")) {
        firmware.insert("bootloader".to_owned(), json!({"efi": {}}));
    }
    let efi = firmware
        .get_mut("bootloader")
        .and_then(|bootloader| bootloader.get_mut("efi")?.as_object_mut());
    if let Some(efi) = efi {
        set_missing(efi, "secureBoot", false);
    }
}

/// `bridge` is the interface of a cluster without `network.defaultNetworkInterface` in its configuration
/// (`pkg/virt-config/virt-config.go`).
fn set_network(spec: &mut Object) -> bool {
    let has_networks = !list(spec, &["networks"]).is_empty()
        || is_set(spec.get("networks").filter(|networks| !networks.is_array()));
    let Some(devices) = domain(spec).and_then(|domain| child(domain, "devices")) else {
        return false;
    };
    let has_interfaces = match devices.get("interfaces") {
        Some(Value::Array(interfaces)) => !interfaces.is_empty(),
        other => is_set(other),
    };
    let is_unwanted = devices.get("autoattachPodInterface") == Some(&Value::Bool(false));
    if has_networks || has_interfaces || is_unwanted {
        return false;
    }
    let interfaces = json!([{"name": "default", "bridge": {}}]);
    devices.insert("interfaces".to_owned(), interfaces);
    spec.insert(
        "networks".to_owned(),
        json!([{"name": "default", "pod": {}}]),
    );
    true
}

fn set_disks_of_volumes(spec: &mut Object) -> bool {
    let name = |value: &Value| Some(value.get("name")?.as_str()?.to_owned());
    let names =
        |path: &[&str]| -> Vec<String> { list(spec, path).iter().filter_map(name).collect() };
    let mut known: HashSet<String> = HashSet::new();
    known.extend(names(&["domain", "devices", "disks"]));
    known.extend(names(&["domain", "devices", "filesystems"]));
    let missing = names(&["volumes"])
        .into_iter()
        .filter(|name| !known.contains(name));
    let missing: Vec<Value> = missing.map(|name| json!({"name": name})).collect();
    if missing.is_empty() {
        return false;
    }
    let Some(devices) = domain(spec).and_then(|domain| child(domain, "devices")) else {
        return false;
    };
    if !is_set(devices.get("disks")) {
        devices.insert("disks".to_owned(), Value::Array(Vec::new()));
    }
    match devices.get_mut("disks") {
        Some(Value::Array(disks)) => disks.extend(missing),
        _ => return false,
    }
    true
}

/// An image of the tag `latest`, or without a tag, is always pulled.
fn set_pull_policies(spec: &mut Object) {
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    let images = volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume.get_mut("containerDisk")?.as_object_mut());
    for disk in images {
        let image = disk
            .get("image")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let policy = match image.ends_with(":latest") || !image.contains([':', '@']) {
            true => "Always",
            false => "IfNotPresent",
        };
        set_missing(disk, "imagePullPolicy", policy);
    }
}

fn set_probe(spec: &mut Object, name: &str) {
    let Some(probe) = spec.get_mut(name).and_then(Value::as_object_mut) else {
        return;
    };
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", PROBE_PERIOD),
        ("successThreshold", 1),
        ("failureThreshold", PROBE_FAILURES),
    ] {
        if probe
            .get(field)
            .is_none_or(|given| given.is_null() || given.as_i64().is_some_and(|given| given < 1))
        {
            probe.insert(field.to_owned(), value.into());
        }
    }
}

/// The fields of a disk that name its kind; the object in each has a bus.
const DISK_TARGETS: [&str; 3] = ["disk", "cdrom", "lun"];

fn set_disk_targets(spec: &mut Object) -> bool {
    let mut is_any_set = false;
    for disk in disks(spec) {
        if DISK_TARGETS.iter().all(|target| !is_set(disk.get(*target))) {
            disk.insert("disk".to_owned(), Object::new().into());
            is_any_set = true;
        }
    }
    is_any_set
}

fn set_disk_buses(spec: &mut Object) -> bool {
    let bus = match architecture_of(spec) {
        ARM64 | S390X => "virtio",
        _ => "sata",
    };
    let mut is_any_set = false;
    for disk in disks(spec) {
        for name in DISK_TARGETS {
            if let Some(Value::Object(target)) = disk.get_mut(name) {
                is_any_set |= set_missing(target, "bus", bus);
            }
        }
    }
    is_any_set
}

/// arm64 has no watchdog.
fn set_watchdog_action(spec: &mut Object) -> bool {
    let model = match architecture_of(spec) {
        ARM64 => return false,
        S390X => "diag288",
        _ => "i6300esb",
    };
    let watchdog = spec.get_mut("domain").and_then(|domain| {
        domain
            .get_mut("devices")?
            .get_mut("watchdog")?
            .as_object_mut()
    });
    let model = watchdog.and_then(|watchdog| child(watchdog, model));
    model.is_some_and(|model| set_missing(model, "action", "reset"))
}

/// `SetDefaults_CDRomTarget`.
fn set_cdrom_drives(spec: &mut Object) {
    let drives = disks(spec).filter_map(|disk| disk.get_mut("cdrom")?.as_object_mut());
    for drive in drives {
        if drive.get("readonly").is_none_or(Value::is_null) {
            drive.insert("readonly".to_owned(), true.into());
        }
        set_missing(drive, "tray", "closed");
    }
}

/// `SetDefaults_FeatureState` of a disk's block sizes.
fn set_match_volume(spec: &mut Object) {
    for disk in disks(spec) {
        let state = disk
            .get_mut("blockSize")
            .and_then(|sizes| sizes.get_mut("matchVolume")?.as_object_mut());
        if let Some(state) = state {
            turn_on(state);
        }
    }
}

/// A VMI that asks for an input device gets one, unless it has some.
fn attach_input_device(spec: &mut Object) -> bool {
    let Some(devices) = domain(spec).and_then(|domain| child(domain, "devices")) else {
        return false;
    };
    let is_wanted = devices.get("autoattachInputDevice") == Some(&Value::Bool(true));
    let has_inputs = match devices.get("inputs") {
        Some(Value::Array(inputs)) => !inputs.is_empty(),
        other => is_set(other),
    };
    if !is_wanted || has_inputs {
        return false;
    }
    devices.insert("inputs".to_owned(), json!([{"name": "default-0"}]));
    true
}

/// `setDefaults_Input`.
fn set_inputs(spec: &mut Object) -> bool {
    let mut is_any_set = false;
    for input in devices(spec, "inputs") {
        for (field, default) in [("bus", "usb"), ("type", "tablet")] {
            is_any_set |= set_missing(input, field, default);
        }
    }
    is_any_set
}

/// `SetDefaults_FeatureState` of `ramFB` of a GPU's display.
fn set_display_ram_fb(spec: &mut Object) {
    let states = devices(spec, "gpus").filter_map(|gpu| {
        let options = gpu.get_mut("virtualGPUOptions")?;
        options
            .get_mut("display")?
            .get_mut("ramFB")?
            .as_object_mut()
    });
    states.for_each(turn_on);
}

fn turn_on(state: &mut Object) {
    if state.get("enabled").is_none_or(Value::is_null) {
        state.insert("enabled".to_owned(), true.into());
    }
}

/// The disks that are objects.
fn disks(spec: &mut Object) -> impl Iterator<Item = &mut Object> {
    devices(spec, "disks")
}

/// The devices of a list that are objects.
fn devices<'a>(spec: &'a mut Object, list: &str) -> impl Iterator<Item = &'a mut Object> + use<'a> {
    let devices = spec
        .get_mut("domain")
        .and_then(|domain| domain.get_mut("devices")?.get_mut(list)?.as_array_mut());
    devices
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// The user of QEMU, unless the cluster has the feature gate `Root`.
const RUNTIME_USER: u64 = 107;

/// Sets the firmware's UUID, and for the VMI of a VirtualMachine also its serial number. They are random in a cluster;
/// here they are derived from the name, so that results are reproducible.
fn set_firmware(spec: &mut Object, name: &str, is_of_vm: bool) {
    let domain = child(spec, "domain");
    let Some(firmware) = domain.and_then(|domain| child(domain, "firmware")) else {
        return;
    };
    for (field, has_field) in [("uuid", true), ("serial", is_of_vm)] {
        if has_field && !is_set(firmware.get(field)) {
            let uuid = uuid(&format!("{field} of {name}"));
            firmware.insert(field.to_owned(), uuid.into());
        }
    }
}

/// Sets the user of QEMU, on which the directories of libvirt's files depend.
pub(super) fn set_runtime_user(vmi: &mut Object) {
    if let Some(status) = child(vmi, "status")
        && !is_set(status.get("runtimeUser"))
    {
        status.insert("runtimeUser".to_owned(), RUNTIME_USER.into());
    }
}

/// A UUID of version 8, whose content is up to the program.
fn uuid(text: &str) -> String {
    let mut digits = format!("{:x}", Sha256::digest(text));
    digits.truncate(32);
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "8");
    for position in [20, 16, 12, 8] {
        digits.insert(position, '-');
    }
    digits
}

// The maxima of processors and memory up to which they can be hotplugged: four times what the VMI has, where it allows
// hotplug (`setupHotplug`, `ValidateLiveUpdateMemory`).

/// `maxHotplugRatio` of a cluster's live update configuration.
const RATIO: u64 = 4;
const MAX_VCPUS: u64 = 512;
const MEMORY_BLOCK: i64 = 2 << 20;
/// The block of a guest with pages of 1 GiB.
const LARGE_MEMORY_BLOCK: i64 = 1 << 30;
const MIN_MEMORY: i64 = 1 << 30;

fn set_hotplug_maxima(spec: &mut Object) {
    set_max_sockets(spec);
    set_max_guest(spec);
}

fn set_max_sockets(spec: &mut Object) {
    let Some(cpu) = domain(spec).and_then(|domain| child(domain, "cpu")) else {
        return;
    };
    if is_set(cpu.get("maxSockets")) {
        return;
    }
    let count = |field: &str| cpu.get(field).and_then(Value::as_u64).unwrap_or(0);
    let (sockets, cores, threads) = (count("sockets"), count("cores"), count("threads"));
    let per_socket = cores.saturating_mul(threads);
    let mut maximum = sockets.saturating_mul(RATIO);
    if maximum.saturating_mul(per_socket) > MAX_VCPUS {
        maximum = (MAX_VCPUS / per_socket).max(sockets);
    }
    if maximum > 0 {
        cpu.insert("maxSockets".to_owned(), maximum.into());
    }
}

fn set_max_guest(spec: &mut Object) {
    if let Some(maximum) = max_guest(spec)
        && let Some(memory) = domain(spec).and_then(|domain| child(domain, "memory"))
    {
        memory.insert("maxGuest".to_owned(), maximum.to_string().into());
    }
}

/// The maximum of memory; `None` if the VMI has one, or cannot have memory hotplugged.
fn max_guest(spec: &Object) -> Option<Quantity> {
    let domain = spec.get("domain")?;
    let memory = domain.get("memory")?;
    let is_in =
        |parent: &Value, path: &str| parent.pointer(path).is_some_and(|value| !value.is_null());
    let guest: Quantity = serde_json::from_value(memory.get("guest")?.clone()).ok()?;
    let guest = guest.value();
    let block = match memory.pointer("/hugepages/pageSize") {
        Some(size) if size == "1Gi" => LARGE_MEMORY_BLOCK,
        _ => MEMORY_BLOCK,
    };
    let cannot_grow = is_in(memory, "/maxGuest")
        || is_in(domain, "/cpu/realtime")
        || is_in(domain, "/cpu/numa/guestMappingPassthrough")
        || is_in(domain, "/launchSecurity")
        || spec.get("architecture")? != "amd64"
        || guest < MIN_MEMORY
        || guest % block != 0;
    if cannot_grow {
        return None;
    }
    let ratio = i64::try_from(RATIO).ok()?;
    guest.checked_mul(ratio).map(Quantity::from_units)
}

#[cfg(test)]
mod tests;
