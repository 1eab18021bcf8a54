//! The defaults of devices that KubeVirt's API server sets in every VMI.

use serde_json::{Value, json};

use super::{ARM64, Object, S390X, architecture_of, child, is_set, set_missing};

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
pub(super) fn set_watchdog_action(spec: &mut Object) -> bool {
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
pub(super) fn set_cdrom_drives(spec: &mut Object) {
    let drives = disks(spec).filter_map(|disk| disk.get_mut("cdrom")?.as_object_mut());
    for drive in drives {
        if drive.get("readonly").is_none_or(Value::is_null) {
            drive.insert("readonly".to_owned(), true.into());
        }
        set_missing(drive, "tray", "closed");
    }
}

/// `SetDefaults_FeatureState` of a disk's block sizes.
pub(super) fn set_match_volume(spec: &mut Object) {
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
pub(super) fn attach_input_device(spec: &mut Object) -> bool {
    let Some(devices) = super::domain(spec).and_then(|domain| child(domain, "devices")) else {
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
pub(super) fn set_inputs(spec: &mut Object) -> bool {
    let mut is_any_set = false;
    for input in devices(spec, "inputs") {
        for (field, default) in [("bus", "usb"), ("type", "tablet")] {
            is_any_set |= set_missing(input, field, default);
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
