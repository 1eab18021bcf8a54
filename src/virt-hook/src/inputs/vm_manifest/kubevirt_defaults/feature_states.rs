//! Features and timers that a VMI names without a state are on (`api/core/v1/zz_generated.defaults.go`).

use serde_json::Value;

use super::{Object, S390X, architecture_of, child};

/// Features with a state of their own.
const FEATURES: [&str; 4] = ["acpi", "apic", "smm", "pvspinlock"];
/// The Hyper-V features, and the features within them.
const HYPERV_FEATURES: [(&str, &[&str]); 14] = [
    ("relaxed", &[]),
    ("vapic", &[]),
    ("spinlocks", &[]),
    ("vpindex", &[]),
    ("runtime", &[]),
    ("synic", &[]),
    ("synictimer", &["direct"]),
    ("reset", &[]),
    ("vendorid", &[]),
    ("frequencies", &[]),
    ("reenlightenment", &[]),
    ("tlbflush", &["direct", "extended"]),
    ("ipi", &[]),
    ("evmcs", &[]),
];
const TIMERS: [&str; 5] = ["hpet", "kvm", "pit", "rtc", "hyperv"];
const SPINLOCK_RETRIES: u64 = 4096;

/// Sets the states. Every VMI has ACPI, which is off on s390x unless the VMI turns it on.
pub(super) fn set(spec: &mut Object) {
    let has_acpi = architecture_of(spec) != S390X;
    let Some(domain) = super::domain(spec) else {
        return;
    };
    if let Some(features) = child(domain, "features") {
        if let Some(acpi) = child(features, "acpi") {
            set_state(acpi, "enabled", has_acpi);
        }
        for name in FEATURES {
            turn_on(features, name);
        }
        if let Some(Value::Object(hyperv)) = features.get_mut("hyperv") {
            set_hyperv(hyperv);
        }
    }
    let timers = domain
        .get_mut("clock")
        .and_then(|clock| clock.get_mut("timer")?.as_object_mut());
    if let Some(timers) = timers {
        for name in TIMERS {
            if let Some(Value::Object(timer)) = timers.get_mut(name) {
                set_state(timer, "present", true);
            }
        }
    }
}

fn set_hyperv(hyperv: &mut Object) {
    for (name, parts) in HYPERV_FEATURES {
        turn_on(hyperv, name);
        if let Some(Value::Object(feature)) = hyperv.get_mut(name) {
            for part in parts {
                turn_on(feature, part);
            }
        }
    }
    if let Some(Value::Object(spinlocks)) = hyperv.get_mut("spinlocks")
        && spinlocks.get("enabled") == Some(&Value::Bool(true))
        && spinlocks.get("spinlocks").is_none_or(Value::is_null)
    {
        spinlocks.insert("spinlocks".to_owned(), SPINLOCK_RETRIES.into());
    }
}

/// Turns a feature on that is there without a state.
fn turn_on(features: &mut Object, name: &str) {
    if let Some(Value::Object(feature)) = features.get_mut(name) {
        set_state(feature, "enabled", true);
    }
}

fn set_state(feature: &mut Object, field: &str, is_on: bool) {
    if feature.get(field).is_none_or(Value::is_null) {
        feature.insert(field.to_owned(), is_on.into());
    }
}
