//! Applies a preference to a VMI: values for what the VMI leaves open (`pkg/instancetype/preference/apply`).

use serde_json::{Map, Value};

use super::{Object, pointer};
use crate::inputs::vm_manifest::kubevirt_defaults::{child, domain, is_set, set_missing};

/// Preferences for devices, and the fields of the VMI's devices that they are for.
const DEVICES: [(&str, &str); 5] = [
    ("preferredUseVirtioTransitional", "useVirtioTransitional"),
    ("preferredBlockMultiQueue", "blockMultiQueue"),
    (
        "preferredNetworkInterfaceMultiQueue",
        "networkInterfaceMultiqueue",
    ),
    ("preferredRng", "rng"),
    ("preferredTPM", "tpm"),
];
/// The same for devices that are there without being named.
const ATTACHED_DEVICES: [(&str, &str); 5] = [
    (
        "preferredAutoattachGraphicsDevice",
        "autoattachGraphicsDevice",
    ),
    ("preferredAutoattachMemBalloon", "autoattachMemBalloon"),
    ("preferredAutoattachPodInterface", "autoattachPodInterface"),
    (
        "preferredAutoattachSerialConsole",
        "autoattachSerialConsole",
    ),
    ("preferredAutoattachInputDevice", "autoattachInputDevice"),
];
const FEATURES: [(&str, &str); 4] = [
    ("preferredApic", "apic"),
    ("preferredKvm", "kvm"),
    ("preferredPvspinlock", "pvspinlock"),
    ("preferredSmm", "smm"),
];
/// Preferences for a disk that is a `disk`.
const DISKS: [(&str, &str); 3] = [
    ("preferredDiskBlockSize", "blockSize"),
    ("preferredDiskCache", "cache"),
    ("preferredDiskIO", "io"),
];
/// The kinds of disks with the preferences for their bus. The first one that a disk has decides.
const DISK_BUSES: [(&str, &str); 3] = [
    ("disk", "preferredDiskBus"),
    ("cdrom", "preferredCdromBus"),
    ("lun", "preferredLunBus"),
];
/// The fields of an interface that say how it is bound.
const BINDINGS: [&str; 8] = [
    "bridge",
    "masquerade",
    "sriov",
    "slirp",
    "macvtap",
    "passt",
    "passtBinding",
    "binding",
];

pub(super) fn apply(preference: &Object, spec: &mut Object, metadata: &mut Object) {
    set_cpu_features(preference, spec);
    if let Some(devices) = preference.get("devices").and_then(Value::as_object) {
        set_devices(devices, spec);
        set_attached_devices(preference, spec);
        set_disks(devices, spec);
        set_interfaces(devices, spec);
        set_inputs(devices, spec);
        set_panic_devices(devices, spec);
    }
    set_features(preference, spec);
    set_firmware(preference, spec);
    set_machine_type(preference, spec);
    set_clock(preference, spec);
    for (from, to) in [
        ("preferredSubdomain", "subdomain"),
        (
            "preferredTerminationGracePeriodSeconds",
            "terminationGracePeriodSeconds",
        ),
    ] {
        copy_missing(preference, from, spec, to);
    }
    set_architecture(preference, spec);
    let annotations = preference.get("annotations").and_then(Value::as_object);
    if let (Some(preferred), Some(annotations)) = (annotations, child(metadata, "annotations")) {
        for (key, value) in preferred {
            annotations.entry(key).or_insert_with(|| value.clone());
        }
    }
    if let Some(domain) = domain(spec) {
        copy_missing(
            preference,
            "preferredLaunchSecurity",
            domain,
            "launchSecurity",
        );
    }
}

pub(super) fn set_architecture(preference: &Object, spec: &mut Object) {
    copy_missing(preference, "preferredArchitecture", spec, "architecture");
}

pub(super) fn set_machine_type(preference: &Object, spec: &mut Object) {
    let preferred = pointer(preference, "/machine/preferredMachineType");
    let machine = domain(spec).and_then(|domain| child(domain, "machine"));
    if let (Some(preferred), Some(machine)) =
        (preferred.filter(|value| is_set(Some(value))), machine)
    {
        set_missing(machine, "type", preferred.clone());
    }
}

pub(super) fn set_attached_devices(preference: &Object, spec: &mut Object) {
    let preferred = preference.get("devices").and_then(Value::as_object);
    let devices = domain(spec).and_then(|domain| child(domain, "devices"));
    if let (Some(preferred), Some(devices)) = (preferred, devices) {
        for (from, to) in ATTACHED_DEVICES {
            copy_missing(preferred, from, devices, to);
        }
    }
}

/// Copies a preferred value to a field that is missing. A field that is false or 0 is there.
fn copy_missing(preference: &Object, from: &str, object: &mut Object, to: &str) {
    let is_missing =
        |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value == "");
    let preferred = preference
        .get(from)
        .filter(|value| !is_missing(Some(value)));
    if let (Some(preferred), true) = (preferred, is_missing(object.get(to))) {
        object.insert(to.to_owned(), preferred.clone());
    }
}

fn set_cpu_features(preference: &Object, spec: &mut Object) {
    let preferred = pointer(preference, "/cpu/preferredCPUFeatures").and_then(Value::as_array);
    let Some(preferred) = preferred.filter(|features| !features.is_empty()) else {
        return;
    };
    let Some(cpu) = domain(spec).and_then(|domain| child(domain, "cpu")) else {
        return;
    };
    let features = cpu
        .entry("features")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(features) = features {
        let name = |feature: &Value| feature.get("name").cloned();
        let known: Vec<_> = features.iter().map(name).collect();
        let missing = preferred
            .iter()
            .filter(|feature| !known.contains(&name(feature)));
        features.extend(missing.cloned());
    }
}

fn set_devices(preferred: &Object, spec: &mut Object) {
    let Some(devices) = domain(spec).and_then(|domain| child(domain, "devices")) else {
        return;
    };
    for (from, to) in DEVICES {
        copy_missing(preferred, from, devices, to);
    }
    // KubeVirt cannot tell whether the VMI sets this one, and always replaces it.
    if let Some(value) = preferred.get("preferredDisableHotplug") {
        devices.insert("disableHotplug".to_owned(), value.clone());
    }
    if let Some(Value::Object(sound)) = devices.get_mut("sound") {
        copy_missing(preferred, "preferredSoundModel", sound, "model");
    }
    if preferred.contains_key("preferredVideoType")
        && let Some(video) = child(devices, "video")
    {
        copy_missing(preferred, "preferredVideoType", video, "type");
    }
}

/// The elements of a list of devices that are objects.
fn elements<'a>(
    spec: &'a mut Object,
    list: &str,
) -> impl Iterator<Item = &'a mut Object> + use<'a> {
    let devices = spec
        .get_mut("domain")
        .and_then(|domain| domain.get_mut("devices")?.get_mut(list)?.as_array_mut());
    devices
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

fn set_disks(preferred: &Object, spec: &mut Object) {
    for disk in elements(spec, "disks") {
        let has_kind = DISK_BUSES.iter().any(|(kind, _)| is_set(disk.get(*kind)));
        if !has_kind {
            disk.insert("disk".to_owned(), Map::new().into());
        }
        let kind = DISK_BUSES.iter().find(|(kind, _)| is_set(disk.get(*kind)));
        let Some((kind, preferred_bus)) = kind else {
            continue;
        };
        if let Some(Value::Object(target)) = disk.get_mut(*kind) {
            copy_missing(preferred, preferred_bus, target, "bus");
        }
        if *kind != "disk" {
            continue;
        }
        for (from, to) in DISKS {
            copy_missing(preferred, from, disk, to);
        }
        if pointer(disk, "/disk/bus").is_some_and(|bus| bus == "virtio") {
            copy_missing(
                preferred,
                "preferredDiskDedicatedIoThread",
                disk,
                "dedicatedIOThread",
            );
        }
    }
}

fn set_interfaces(preferred: &Object, spec: &mut Object) {
    let networks = spec.get("networks").and_then(Value::as_array);
    let pod_networks: Vec<Value> = networks
        .into_iter()
        .flatten()
        .filter(|network| network.get("pod").is_some_and(|pod| !pod.is_null()))
        .filter_map(|network| network.get("name").cloned())
        .collect();
    for interface in elements(spec, "interfaces") {
        copy_missing(preferred, "preferredInterfaceModel", interface, "model");
        let is_bound = BINDINGS.iter().any(|binding| {
            interface
                .get(*binding)
                .is_some_and(|value| !value.is_null())
        });
        let is_on_pod_network = interface
            .get("name")
            .is_some_and(|name| pod_networks.contains(name));
        if !is_bound && is_on_pod_network {
            copy_missing(
                preferred,
                "preferredInterfaceMasquerade",
                interface,
                "masquerade",
            );
        }
    }
}

fn set_inputs(preferred: &Object, spec: &mut Object) {
    for input in elements(spec, "inputs") {
        copy_missing(preferred, "preferredInputBus", input, "bus");
        copy_missing(preferred, "preferredInputType", input, "type");
    }
}

fn set_panic_devices(preferred: &Object, spec: &mut Object) {
    if !preferred.contains_key("preferredPanicDeviceModel") {
        return;
    }
    if let Some(devices) = domain(spec).and_then(|domain| child(domain, "devices")) {
        let panic_devices = devices
            .entry("panicDevices")
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(panic_devices) = panic_devices
            && panic_devices.is_empty()
        {
            panic_devices.push(Map::new().into());
        }
    }
    for device in elements(spec, "panicDevices") {
        copy_missing(preferred, "preferredPanicDeviceModel", device, "model");
    }
}

fn set_features(preference: &Object, spec: &mut Object) {
    let Some(preferred) = preference.get("features").and_then(Value::as_object) else {
        return;
    };
    let Some(features) = domain(spec).and_then(|domain| child(domain, "features")) else {
        return;
    };
    // KubeVirt cannot tell whether the VMI sets this one, and always replaces it.
    if let Some(acpi) = preferred.get("preferredAcpi") {
        features.insert("acpi".to_owned(), acpi.clone());
    }
    for (from, to) in FEATURES {
        copy_missing(preferred, from, features, to);
    }
    if let Some(Value::Object(preferred)) = preferred.get("preferredHyperv")
        && let Some(hyperv) = child(features, "hyperv")
    {
        for name in preferred.keys() {
            copy_missing(preferred, name, hyperv, name);
        }
    }
}

fn set_firmware(preference: &Object, spec: &mut Object) {
    let Some(preferred) = preference.get("firmware").and_then(Value::as_object) else {
        return;
    };
    let firmware = domain(spec).and_then(|domain| child(domain, "firmware"));
    let Some(loader) = firmware.and_then(|firmware| child(firmware, "bootloader")) else {
        return;
    };
    let is_true = |name: &str| preferred.get(name) == Some(&Value::Bool(true));
    let has = |loader: &Object, name: &str| loader.get(name).is_some_and(|value| !value.is_null());
    let has_loader = |loader: &Object| has(loader, "bios") || has(loader, "efi");
    if is_true("preferredUseBios") && !has_loader(loader) {
        loader.insert("bios".to_owned(), Map::new().into());
    }
    if let Some(Value::Object(bios)) = loader.get_mut("bios") {
        copy_missing(preferred, "preferredUseBiosSerial", bios, "useSerial");
    }
    if !has_loader(loader)
        && let Some(efi) = preferred.get("preferredEfi")
    {
        loader.insert("efi".to_owned(), efi.clone());
        return;
    }
    if is_true("preferredUseEfi") && !has_loader(loader) {
        loader.insert("efi".to_owned(), Map::new().into());
    }
    if let Some(Value::Object(efi)) = loader.get_mut("efi") {
        copy_missing(preferred, "preferredUseSecureBoot", efi, "secureBoot");
    }
}

/// An offset is either UTC or a time zone, so a preferred one replaces neither.
fn set_clock(preference: &Object, spec: &mut Object) {
    let Some(preferred) = preference.get("clock").and_then(Value::as_object) else {
        return;
    };
    let Some(clock) = domain(spec).and_then(|domain| child(domain, "clock")) else {
        return;
    };
    let has_offset = ["utc", "timezone"]
        .iter()
        .any(|offset| clock.get(*offset).is_some_and(|value| !value.is_null()));
    if let (Some(Value::Object(offset)), false) =
        (preferred.get("preferredClockOffset"), has_offset)
    {
        clock.extend(offset.clone());
    }
    copy_missing(preferred, "preferredTimer", clock, "timer");
}
