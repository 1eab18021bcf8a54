//! The defaults that KubeVirt's API server sets in every VMI, whatever the cluster's configuration is; and the network
//! interface, for which the cluster may have another setting.

mod device_defaults;
mod firmware_and_runtime_user;
mod hyperv_dependencies;

use std::collections::HashSet;

use kubevirt_api::vmi::Quantity;
use serde_json::{Map, Value, json};

pub(super) use firmware_and_runtime_user::{set_firmware, set_runtime_user};

type Object = Map<String, Value>;

/// Sets the defaults in a VMI's spec and returns their names for people. Memory and processors are left alone if an
/// instance type decides them. A value of a wrong type is left alone, too: the VMI is refused for it later.
pub(super) fn set(spec: &mut Object, has_instance_type: bool) -> Vec<&'static str> {
    let names = [
        (!has_instance_type && set_memory(spec)).then_some("guest memory"),
        (!has_instance_type && set_cpu_topology(spec)).then_some("CPU sockets"),
        set_network(spec).then_some("the network interface"),
        set_disks_of_volumes(spec).then_some("disks of volumes"),
        device_defaults::set_disk_targets(spec).then_some("disk targets"),
        device_defaults::set_disk_buses(spec).then_some("disk buses"),
        device_defaults::set_watchdog_action(spec).then_some("the watchdog's action"),
        set_spinlock_retries(spec).then_some("spinlock retries"),
        hyperv_dependencies::set(spec).then_some("Hyper-V features that others need"),
        device_defaults::set_inputs(spec).then_some("input devices"),
    ];
    // Authors do not write these fields, so the note does not name them.
    set_features(spec);
    device_defaults::set_cdrom_trays(spec);
    device_defaults::set_display_ram_fb(spec);
    names.into_iter().flatten().collect()
}

fn is_set(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_null() && value != "" && value != 0)
}

/// The object `name` in an object, which is created if it is missing.
fn child<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    if !is_set(object.get(name)) {
        object.insert(name.to_owned(), Object::new().into());
    }
    object.get_mut(name)?.as_object_mut()
}

fn domain(spec: &mut Object) -> Option<&mut Object> {
    child(spec, "domain")
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

/// An amount of the pod's resources that is not zero.
fn resource(domain: &Object, list: &str, name: &str) -> Option<(Value, Quantity)> {
    let value = domain.get("resources")?.get(list)?.get(name)?;
    let amount: Quantity = serde_json::from_value(value.clone()).ok()?;
    (!amount.is_zero()).then(|| (value.clone(), amount))
}

fn set_memory(spec: &mut Object) -> bool {
    let Some(domain) = domain(spec) else {
        return false;
    };
    let page_size = || {
        let size = domain.get("memory")?.get("hugepages")?.get("pageSize")?;
        is_set(Some(size)).then(|| size.clone())
    };
    let of_pod = |list: &str| resource(domain, list, "memory").map(|(value, _)| value);
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

/// `SetDefaults_FeatureSpinlocks` of `api/core/v1/defaults.go`.
fn set_spinlock_retries(spec: &mut Object) -> bool {
    let spinlocks = spec.get_mut("domain").and_then(|domain| {
        let hyperv = domain.get_mut("features")?.get_mut("hyperv")?;
        hyperv.get_mut("spinlocks")?.as_object_mut()
    });
    let Some(spinlocks) = spinlocks else {
        return false;
    };
    let is_off = spinlocks.get("enabled") == Some(&Value::Bool(false));
    if is_off
        || spinlocks
            .get("retries")
            .is_some_and(|retries| !retries.is_null())
    {
        return false;
    }
    spinlocks.insert("retries".to_owned(), 4096.into());
    true
}

/// `SetDefaults_VirtualMachineInstance` of `api/core/v1/defaults.go`: with features, ACPI is on.
fn set_features(spec: &mut Object) {
    if let Some(domain) = domain(spec) {
        child(domain, "features");
    }
}

#[cfg(test)]
mod tests;
