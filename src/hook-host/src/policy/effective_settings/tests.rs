//! Resolves settings from the texts of a description, a `hook.yaml` and an operator's policy.

mod conditions_on_values;
mod grant_limit_and_parser_properties;
mod operator_rules;
mod sidecars;

use std::path::Path;
use std::rc::Rc;

use domain_xml::Document;
use domain_xml::host::{Budget, diff};
use proptest::prelude::*;

use super::*;
use crate::HookPoint;
use crate::policy::domain_grant::Layer;

const PLAIN_DESCRIPTION: &str = r#"{"hookPoints":[{"name":"OnDefineDomain","priority":1},{"name":"Shutdown"}],
    "wishes":{"paths":["/domain/title","/domain/sysinfo/**"],"config":["key"]}}"#;
const DESCRIPTION_WITH_DIRS: &str = r#"{"wishes":{"dirs":["/etc/hook"]}}"#;

fn resolve_texts(
    description: &str,
    yaml: Option<&str>,
    operator: Option<&str>,
) -> Result<EffectiveSettings, ResolveError> {
    let description = Description::parse(description).unwrap();
    let digest = "d".repeat(64);
    let identity = ModuleIdentity {
        digest: &digest,
        namespace: "ns",
        signature: &ModuleSignature::unverified("it is not signed"),
        description: &description,
    };
    let yaml = yaml.map(|text| HookYaml::parse(Path::new("h/hook.yaml"), text).unwrap());
    let operator = operator.map(|text| OperatorPolicy::parse(Path::new("p.yaml"), text).unwrap());
    resolve(
        identity,
        &Limits::default(),
        yaml.as_ref(),
        operator.as_ref(),
    )
}

fn refusal(description: &str, yaml: Option<&str>, operator: Option<&str>) -> String {
    resolve_texts(description, yaml, operator)
        .err()
        .unwrap()
        .to_string()
}

/// The settings of [`PLAIN_DESCRIPTION`] with this `hook.yaml`, which begins in line 2.
fn resolve_yaml(yaml: &str, operator: Option<&str>) -> Result<EffectiveSettings, ResolveError> {
    resolve_texts(
        PLAIN_DESCRIPTION,
        Some(&format!("# one line\n{yaml}")),
        operator,
    )
}

#[test]
fn without_policies_a_hook_gets_what_it_declares() {
    let plain = r#"{"hookPoints":[{"name":"Shutdown","priority":4}],"wishes":{}}"#;
    let settings = resolve_texts(plain, None, None).unwrap();
    assert_eq!(settings.hook_points[0].priority, 4);
    assert_eq!(settings.limits, Limits::default());
    assert_eq!(settings.failure_policy, FailurePolicy::Fail);
    assert!(settings.dirs.is_empty() && settings.config.is_empty());
}

#[test]
fn directories_must_be_allowed_by_the_operator() {
    let yaml = Some("allow: {dirs: [/etc/hook, /x]}\n");
    for (operator, place) in [
        (None, "there is none"),
        (Some("{}"), "p.yaml"),
        (Some("allow: {paths: []}\n"), "p.yaml"),
        (Some("allow: {dirs: [/etc/hooks]}\n"), "p.yaml:1:"),
    ] {
        let error = refusal(DESCRIPTION_WITH_DIRS, yaml, operator);
        assert!(
            error.contains("\"/etc/hook\"")
                && error.contains("allow.dirs of")
                && error.contains(place),
            "{error}"
        );
    }
    let dirs = |yaml, operator| {
        resolve_texts(DESCRIPTION_WITH_DIRS, yaml, Some(operator))
            .unwrap()
            .dirs
    };
    assert_eq!(
        dirs(None, "allow: {dirs: [/etc]}\n"),
        [Path::new("/etc/hook")]
    );
    assert_eq!(
        dirs(yaml, "allow: {dirs: [/etc/hook/a, /etc/hook/b, /x]}\n"),
        [Path::new("/etc/hook/a"), Path::new("/etc/hook/b")]
    );
    let narrowed_yaml = Some("allow: {dirs: [/etc/hook/a]}\n");
    assert_eq!(
        dirs(narrowed_yaml, "allow: {dirs: [/etc]}\n"),
        [Path::new("/etc/hook/a")]
    );
    let refusal_text = refusal(
        DESCRIPTION_WITH_DIRS,
        Some("allow: {dirs: []}\n"),
        Some("allow: {dirs: [/etc]}\n"),
    );
    assert!(
        refusal_text.contains("allow.dirs of h/hook.yaml:1:"),
        "{refusal_text}"
    );
}

#[test]
fn hook_points_are_narrowed_and_reordered() {
    let points = |yaml: &str| resolve_yaml(yaml, None).unwrap().hook_points;
    assert_eq!(
        points("priority: 7\n")
            .iter()
            .map(|p| p.priority)
            .collect::<Vec<_>>(),
        [7, 7]
    );
    let chosen = points("priority: 7\nhookPoints: [{name: Shutdown, priority: 9}]\n");
    assert_eq!(
        (chosen.len(), chosen[0].point, chosen[0].priority),
        (1, HookPoint::Shutdown, 9)
    );
    let error = resolve_yaml("hookPoints:\n- name: PreStart\n", None)
        .err()
        .unwrap();
    assert!(
        error.to_string().starts_with("h/hook.yaml:3:9: "),
        "{error}"
    );
    let error = resolve_yaml("{}", Some("allow: {hookPoints: [Shutdown]}\n"))
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("hook point \"OnDefineDomain\""),
        "{error}"
    );
}

#[test]
fn caps_lower_defaults_and_refuse_higher_values() {
    let operator = Some("limits: {memory: 32Mi, deadline: 1s}\nfailurePolicies: [Fail, DryRun]\n");
    let settings = resolve_yaml("deadline: 500ms\nlog: 1Ki\n", operator).unwrap();
    assert_eq!(settings.limits.memory, 32 << 20);
    assert_eq!(settings.limits.call_deadline.as_millis(), 500);
    assert_eq!(settings.limits.log, 1024);
    for (yaml, start) in [
        ("memory: 33Mi\n", "h/hook.yaml:2:9: "),
        ("deadline: 2s\n", "h/hook.yaml:2:11: "),
        ("failurePolicy: Ignore\n", "h/hook.yaml:2:16: "),
    ] {
        let error = resolve_yaml(yaml, operator).err().unwrap().to_string();
        assert!(
            error.starts_with(start) && error.contains("p.yaml:"),
            "{error}"
        );
    }
    let dry = resolve_yaml("failurePolicy: DryRun\n", operator).unwrap();
    assert_eq!(dry.failure_policy, FailurePolicy::DryRun);
}

#[test]
fn configuration_keys_that_the_module_does_not_read_are_refused() {
    assert_eq!(
        resolve_yaml("config: {key: v}\n", None).unwrap().config["key"],
        "v"
    );
    let error = resolve_yaml("config:\n  keey: v\n", None)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("h/hook.yaml:3:9: ") && error.contains("[key]"),
        "{error}"
    );
    let error = resolve_yaml("config: {key: v}\n", Some("allow: {config: []}\n"));
    assert!(
        error
            .err()
            .unwrap()
            .to_string()
            .contains("allow.config of p.yaml:1:")
    );
}

#[test]
fn a_wish_that_no_layer_allows_is_refused_at_load() {
    let wishes = |paths: &str| format!(r#"{{"wishes":{{"paths":[{paths}]}}}}"#);
    let both = wishes(r#""/domain/title","/domain/devices/**""#);
    let narrow = "allow:\n  paths: [/domain/title, '/domain/devices/disk/driver/**']\n";
    assert!(resolve_texts(&both, Some(narrow), None).is_ok());
    let error = refusal(&both, Some("allow:\n  paths: [/domain/title]\n"), None);
    assert!(
        error.contains("\"/domain/devices/**\"") && error.contains("allow.paths of h/hook.yaml:2:"),
        "{error}"
    );
    let error = refusal(
        &both,
        None,
        Some("allow:\n  paths: ['/domain/devices/**']\n"),
    );
    assert!(
        error.contains("\"/domain/title\"") && error.contains("p.yaml:2:"),
        "{error}"
    );
    let dangerous = wishes(r#""/domain/qemu:commandline/**""#);
    for operator in [None, Some("{}"), Some("allow: {paths: ['/domain/**']}\n")] {
        let error = refusal(
            &dangerous,
            Some("allow: {paths: ['/domain/qemu:commandline/**']}\n"),
            operator,
        );
        assert!(error.contains("qemu:commandline"), "{error}");
    }
    let without_operator = resolve_texts(&dangerous, None, None)
        .unwrap_err()
        .to_string();
    assert!(
        without_operator.contains("--policy of virt-hook names one) does not allow: add it there"),
        "{without_operator}"
    );
    let granted = "allow: {dangerous: ['/domain/qemu:commandline/**']}\n";
    assert!(resolve_texts(&dangerous, None, Some(granted)).is_ok());
    let rule = "allow: {dangerous: []}\nrules:\n- namespaces: [ns]\n  allow: {dangerous: ['/domain/qemu:commandline/**']}\n";
    assert!(resolve_texts(&dangerous, None, Some(rule)).is_ok());
    assert!(resolve_texts(&dangerous, None, Some(&rule.replace("[ns]", "[other]"))).is_err());
}
