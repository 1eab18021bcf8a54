//! The defaults of devices that KubeVirt's API server sets in every VMI.

use serde_json::Value;

use super::{Object, child, is_set};

/// The fields of a disk that name its kind; the object in each has a bus.
const DISK_TARGETS: [&str; 3] = ["disk", "cdrom", "lun"];

pub(super) fn set_disk_targets(spec: &mut Object) -> bool {
    let mut is_any_set = false;
    for disk in disks(spec) {
        if DISK_TARGETS.iter().all(|target| !is_set(disk.get(*target))) {
            disk.insert("disk".to_owned(), Object::new().into());
            is_any_set = true;
        }
    }
    is_any_set
}

pub(super) fn set_disk_buses(spec: &mut Object) -> bool {
    let bus = match spec.get("architecture").and_then(Value::as_str) {
        Some("arm64" | "s390x") => "virtio",
        _ => "sata",
    };
    let mut is_any_set = false;
    for disk in disks(spec) {
        for name in DISK_TARGETS {
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
pub(super) fn set_watchdog_action(spec: &mut Object) -> bool {
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

/// `SetDefaults_CDRomTarget`.
pub(super) fn set_cdrom_trays(spec: &mut Object) {
    let drives = disks(spec).filter_map(|disk| disk.get_mut("cdrom")?.as_object_mut());
    for drive in drives {
        if !is_set(drive.get("tray")) {
            drive.insert("tray".to_owned(), "closed".into());
        }
    }
}

/// `setDefaults_Input`.
pub(super) fn set_inputs(spec: &mut Object) -> bool {
    let mut is_any_set = false;
    for input in devices(spec, "inputs") {
        for (field, default) in [("bus", "usb"), ("type", "tablet")] {
            if !is_set(input.get(field)) {
                input.insert(field.to_owned(), default.into());
                is_any_set = true;
            }
        }
    }
    is_any_set
}

/// `SetDefaults_FeatureState` of `ramFB` of a GPU's display.
pub(super) fn set_display_ram_fb(spec: &mut Object) {
    let states = devices(spec, "gpus").filter_map(|gpu| {
        let options = gpu.get_mut("virtualGPUOptions")?;
        options
            .get_mut("display")?
            .get_mut("ramFB")?
            .as_object_mut()
    });
    for state in states {
        if state.get("enabled").is_none_or(Value::is_null) {
            state.insert("enabled".to_owned(), true.into());
        }
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
