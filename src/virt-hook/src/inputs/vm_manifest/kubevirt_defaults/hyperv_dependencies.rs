//! Turns on the Hyper-V features that enabled features need (`pkg/defaults/hyperv.go`).

use serde_json::{Map, Value, json};

use super::Object;

/// Each feature with the one that it needs, in KubeVirt's order: `synictimer` turns `synic` on, and `synic` then
/// `vpindex`.
const DEPENDENCIES: [(&str, &str); 5] = [
    ("evmcs", "vapic"),
    ("ipi", "vpindex"),
    ("tlbflush", "vpindex"),
    ("synictimer", "synic"),
    ("synic", "vpindex"),
];
/// The processor feature that `evmcs` needs.
const VMX: &str = "vmx";

/// Turns on the features that enabled ones need. A needed feature that is turned off stays off, and the dependencies
/// after it are not set: KubeVirt refuses such a VMI.
pub(super) fn set(spec: &mut Object) -> bool {
    let hyperv = spec
        .get_mut("domain")
        .and_then(|domain| domain.get_mut("features")?.get_mut("hyperv"));
    let Some(Value::Object(hyperv)) = hyperv else {
        return false;
    };
    let mut is_any_set = false;
    for (feature, needed) in DEPENDENCIES {
        match (is_enabled(hyperv, feature), is_enabled(hyperv, needed)) {
            (Some(true), None) => {
                hyperv.insert(needed.to_owned(), json!({"enabled": true}));
                is_any_set = true;
            }
            (Some(true), Some(false)) => return is_any_set,
            _ => {}
        }
    }
    if is_enabled(hyperv, "evmcs") == Some(true) {
        is_any_set |= set_vmx(spec);
    }
    is_any_set
}

/// Whether a feature is on; `None` if the VMI does not have it. A feature without `enabled` is on.
fn is_enabled(hyperv: &Object, feature: &str) -> Option<bool> {
    let state = hyperv.get(feature)?.as_object()?;
    Some(state.get("enabled") != Some(&Value::Bool(false)))
}

fn set_vmx(spec: &mut Object) -> bool {
    let domain = spec.get_mut("domain").and_then(Value::as_object_mut);
    let Some(cpu) = domain.and_then(|domain| super::child(domain, "cpu")) else {
        return false;
    };
    if !super::is_set(cpu.get("features")) {
        cpu.insert("features".to_owned(), Value::Array(Vec::new()));
    }
    let Some(Value::Array(features)) = cpu.get_mut("features") else {
        return false;
    };
    let is_vmx = |feature: &&mut Object| feature.get("name").is_some_and(|name| name == VMX);
    match features
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .find(is_vmx)
    {
        Some(feature) => set_policy(feature),
        None => {
            features.push(json!({"name": VMX, "policy": "require"}));
            true
        }
    }
}

fn set_policy(feature: &mut Map<String, Value>) -> bool {
    let policy = feature.insert("policy".to_owned(), "require".into());
    policy.is_none_or(|policy| policy != "require")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_defaults(hyperv: Value, cpu: Value) -> (Value, bool) {
        let Value::Object(mut spec) =
            json!({"domain": {"features": {"hyperv": hyperv}, "cpu": cpu}})
        else {
            panic!("it is an object")
        };
        let is_set = set(&mut spec);
        (spec["domain"].clone(), is_set)
    }

    #[test]
    fn needed_features_of_needed_features_are_enabled_too() {
        let on = json!({"enabled": true});
        for (given, expected) in [
            (
                json!({"synictimer": {"direct": {}}}),
                json!({"synictimer": {"direct": {}}, "synic": on, "vpindex": on}),
            ),
            (json!({"ipi": {}}), json!({"ipi": {}, "vpindex": on})),
            (
                json!({"tlbflush": on, "vpindex": {}}),
                json!({"tlbflush": on, "vpindex": {}}),
            ),
            (
                json!({"synic": {"enabled": false}}),
                json!({"synic": {"enabled": false}}),
            ),
        ] {
            let is_changed = given != expected;
            let (domain, is_set) = with_defaults(given, json!({}));
            assert_eq!(domain["features"]["hyperv"], expected);
            assert_eq!(is_set, is_changed);
            assert_eq!(domain["cpu"], json!({}));
        }
    }

    #[test]
    fn a_needed_feature_that_is_turned_off_stays_off() {
        let features = json!({"evmcs": {}, "vapic": {"enabled": false}, "ipi": {}});
        let (domain, is_set) = with_defaults(features.clone(), json!({}));
        assert_eq!(domain["features"]["hyperv"], features);
        assert!(!is_set);
    }

    #[test]
    fn evmcs_requires_the_processors_vmx() {
        let vmx = json!({"name": "vmx", "policy": "require"});
        let other = json!({"name": "pcid", "policy": "disable"});
        for (given, expected) in [
            (json!({}), json!([vmx])),
            (json!({"features": [other]}), json!([other, vmx])),
            (
                json!({"features": [{"name": "vmx", "policy": "optional"}, other]}),
                json!([vmx, other]),
            ),
        ] {
            let (domain, is_set) = with_defaults(json!({"evmcs": {}, "vapic": {}}), given);
            assert_eq!(domain["cpu"]["features"], expected);
            assert!(is_set);
        }
        let (_, is_set) = with_defaults(
            json!({"evmcs": {}, "vapic": {}}),
            json!({"features": [vmx]}),
        );
        assert!(!is_set);
        let off = json!({"evmcs": {"enabled": false}});
        assert_eq!(with_defaults(off, json!({})).0["cpu"], json!({}));
    }
}
