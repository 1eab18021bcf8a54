//! The defaults that KubeVirt's API server sets in every VMI, whatever the cluster's configuration is; and the network interface,
//! for which the cluster may have another setting.

use std::collections::HashSet;

use kubevirt_api::vmi::Quantity;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// The kinds of disks; each has a bus.
const TARGETS: [&str; 3] = ["disk", "cdrom", "lun"];

/// Sets the defaults in a VMI's spec and returns their names for people. Memory and processors are left alone if an instance type
/// decides them. A value of a wrong type is left alone, too: the VMI is refused for it later.
pub(super) fn set(spec: &mut Object, has_instance_type: bool) -> Vec<&'static str> {
    let names = [
        (!has_instance_type && set_memory(spec)).then_some("guest memory"),
        (!has_instance_type && set_cpu_topology(spec)).then_some("CPU sockets"),
        set_network(spec).then_some("the network interface"),
        set_disks_of_volumes(spec).then_some("disks of volumes"),
        set_disk_targets(spec).then_some("disk targets"),
        set_disk_buses(spec).then_some("disk buses"),
        set_watchdog_action(spec).then_some("the watchdog's action"),
        set_spinlock_retries(spec).then_some("spinlock retries"),
    ];
    names.into_iter().flatten().collect()
}

fn is_set(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_null() && value != "" && value != 0)
}

/// The object of this name, which is created if it is not there.
fn child<'a>(of: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    if !is_set(of.get(name)) {
        of.insert(name.to_owned(), Object::new().into());
    }
    of.get_mut(name)?.as_object_mut()
}

fn domain(spec: &mut Object) -> Option<&mut Object> {
    child(spec, "domain")
}

fn list<'a>(of: &'a Object, path: &[&str]) -> &'a [Value] {
    let Some((last, parents)) = path.split_last() else {
        return &[];
    };
    let parent = parents
        .iter()
        .try_fold(of, |object, name| object.get(*name)?.as_object());
    let found = parent.and_then(|parent| parent.get(*last)?.as_array());
    found.map_or(&[], Vec::as_slice)
}

/// An amount of the pod's resources that is not zero.
fn resource(domain: &Object, of: &str, name: &str) -> Option<(Value, Quantity)> {
    let value = domain.get("resources")?.get(of)?.get(name)?;
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
    let of_pod = |of: &str| resource(domain, of, "memory").map(|(value, _)| value);
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

/// Whether there is more than the one processor of a VMI that asks for none.
fn set_cpu_topology(spec: &mut Object) -> bool {
    let Some(domain) = domain(spec) else {
        return false;
    };
    let of_pod = |of: &str| resource(domain, of, "cpu").map(|(_, amount)| amount.value());
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
    let has_some = !list(spec, &["networks"]).is_empty()
        || is_set(spec.get("networks").filter(|networks| !networks.is_array()));
    let Some(devices) = domain(spec).and_then(|domain| child(domain, "devices")) else {
        return false;
    };
    let has_interfaces = match devices.get("interfaces") {
        Some(Value::Array(interfaces)) => !interfaces.is_empty(),
        other => is_set(other),
    };
    let is_unwanted = devices.get("autoattachPodInterface") == Some(&Value::Bool(false));
    if has_some || has_interfaces || is_unwanted {
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

/// The disks that are objects.
fn disks(spec: &mut Object) -> impl Iterator<Item = &mut Object> {
    let disks = spec
        .get_mut("domain")
        .and_then(|domain| domain.get_mut("devices")?.get_mut("disks")?.as_array_mut());
    disks.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn set_disk_targets(spec: &mut Object) -> bool {
    let mut is_any_set = false;
    for disk in disks(spec) {
        if TARGETS.iter().all(|target| !is_set(disk.get(*target))) {
            disk.insert("disk".to_owned(), Object::new().into());
            is_any_set = true;
        }
    }
    is_any_set
}

fn set_disk_buses(spec: &mut Object) -> bool {
    let bus = match spec.get("architecture").and_then(Value::as_str) {
        Some("arm64" | "s390x") => "virtio",
        _ => "sata",
    };
    let mut is_any_set = false;
    for disk in disks(spec) {
        for name in TARGETS {
            let target = disk.get_mut(name).and_then(Value::as_object_mut);
            if let Some(target) = target.filter(|target| !is_set(target.get("bus"))) {
                target.insert("bus".to_owned(), bus.into());
                is_any_set = true;
            }
        }
    }
    is_any_set
}

/// `SetAmd64Watchdog` of `pkg/defaults/amd64.go`; the other architectures have no `i6300esb`.
fn set_watchdog_action(spec: &mut Object) -> bool {
    if matches!(
        spec.get("architecture").and_then(Value::as_str),
        Some("arm64" | "s390x")
    ) {
        return false;
    }
    let watchdog = spec.get_mut("domain").and_then(|domain| {
        domain
            .get_mut("devices")?
            .get_mut("watchdog")?
            .as_object_mut()
    });
    let Some(model) = watchdog.and_then(|watchdog| child(watchdog, "i6300esb")) else {
        return false;
    };
    if is_set(model.get("action")) {
        return false;
    }
    model.insert("action".to_owned(), "reset".into());
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

#[cfg(test)]
mod tests;
