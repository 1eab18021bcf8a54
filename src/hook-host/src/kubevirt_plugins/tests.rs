//! Parsing of Plugins, the order of their hooks, and the admission of a VMI.

mod conditions;
mod malformed_and_unknown_fields;

use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::domain_or_launcher_hooks::HookList;
use super::plugin_hook::Action;
use super::*;
use crate::policy::OperatorPolicy;
use crate::{HookError, Limits};

const VMI: &str = r#"{"metadata":{"name":"vm","labels":{"app":"test"}}}"#;

fn parse(plugins: &Value) -> Plugins {
    Plugins::parse(plugins.to_string().as_bytes()).unwrap()
}

fn plugin(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

fn sidecar(plugin: &str) -> Value {
    json!({"sidecar": {"socketPath": format!("/var/run/kubevirt-plugin/{plugin}/hook.sock")}})
}

fn order(plugins: &Plugins) -> Vec<(&str, usize)> {
    let hooks = plugins.hooks.iter();
    hooks
        .map(|hook| (hook.plugin.as_str(), hook.index.unwrap()))
        .collect()
}

fn check(plugins: &Value, policy: Option<&str>) -> Result<(), HookError> {
    let path = std::path::Path::new("p.yaml");
    let operator = policy.map(|text| OperatorPolicy::parse(path, text).unwrap());
    parse(plugins).check(
        VMI,
        PlanContext {
            operator: operator.as_ref(),
            limits: &Limits::default(),
            plugins_dir: std::path::Path::new("/var/run/kubevirt-plugin"),
            modules: None,
        },
    )
}

fn refusal(plugins: &Value) -> String {
    check(plugins, None).unwrap_err().to_string()
}

#[test]
fn plugins_are_ordered_by_name_and_hooks_by_position() {
    let hooks_with_and_without_action =
        json!({"domainHooks": [sidecar("b"), {}, sidecar("b"), null]});
    let plugins = parse(&json!([
        plugin("b", hooks_with_and_without_action),
        plugin("a-plugin", json!({"domainHooks": [sidecar("a-plugin")]})),
        plugin("B", json!({"domainHooks": [sidecar("B")]})),
    ]));
    let expected = [("B", 0), ("a-plugin", 0), ("b", 0), ("b", 2)];
    assert_eq!(
        order(&plugins),
        expected,
        "names compare as in Go, and hooks without an action are skipped"
    );
}

#[test]
fn plugins_without_domain_hooks_are_empty() {
    for text in [
        "",
        "null",
        "[]",
        "[null]",
        "[{}]",
        r#"[{"kind":"Plugin","metadata":{"name":"n","creationTimestamp":null},"status":{},
            "spec":{"condition":"vmi.spec.foo","nodeHooks":[{"socket":"/x","permittedHooks":[]}]}}]"#,
        r#"[{"metadata":null,"spec":null}]"#,
        r#"[{"spec":{"domainHooks":null}}]"#,
    ] {
        assert!(
            Plugins::parse(text.as_bytes()).unwrap().is_empty(),
            "{text}"
        );
    }
}

#[test]
fn a_hooks_failure_strategy_overrides_its_plugins() {
    let ignores = |plugin_strategy: &str, hook_strategy: &str| {
        let mut hook = sidecar("a");
        hook["failureStrategy"] = hook_strategy.into();
        let spec = json!({"failureStrategy": plugin_strategy, "domainHooks": [hook]});
        parse(&json!([plugin("a", spec)])).hooks[0].ignore
    };
    assert!(!ignores("", ""));
    assert!(!ignores("", "Fail") && ignores("", "Ignore"));
    assert!(ignores("Ignore", "") && !ignores("Ignore", "Fail"));
    assert!(!ignores("Whatever", "") && !ignores("Ignore", "ignore"));
}

#[test]
fn timeouts_are_go_durations_with_a_maximum() {
    let timeout = |text: Value| {
        let mut hook = sidecar("a");
        hook["timeout"] = text;
        parse(&json!([plugin("a", json!({"domainHooks": [hook]}))])).hooks[0].timeout
    };
    assert_eq!(timeout(Value::Null), Duration::from_secs(30));
    assert_eq!(timeout(json!("1m30s")), Duration::from_secs(90));
    assert_eq!(timeout(json!("0s")), Duration::ZERO);
    assert_eq!(timeout(json!("-1s")), Duration::ZERO);
    assert_eq!(timeout(json!("24h0m0s")), MAX_TIMEOUT);
}

fn launcher_sidecar(plugin: &str, points: &[&str]) -> Value {
    let mut hook = sidecar(plugin);
    hook["sidecar"]["permittedHooks"] = json!(points);
    hook
}

#[test]
fn launcher_hooks_of_v1_10_are_called_like_domain_hooks() {
    let hooks = [launcher_sidecar("n", &["GuestDefinition"]), sidecar("n")];
    let plugins = parse(&json!([plugin("n", json!({"launcherHooks": [hooks[0]]}))]));
    assert_eq!(order(&plugins), [("n", 0)]);
    assert_eq!(plugins.hooks[0].list, HookList::LauncherHooks);
    assert_eq!(
        plugins.hooks[0].action,
        Action::Sidecar {
            socket_path: "/var/run/kubevirt-plugin/n/hook.sock".to_owned(),
            uncalled_points: Vec::new(),
        }
    );
    assert_eq!(
        check(
            &json!([plugin(
                "n",
                json!({"launcherHooks": [hooks[0]], "nodeHooks": [{}], "mutatingAdmissionPolicies": [{}],
            "validatingAdmissionWebhooks": []})
            )]),
            None
        ),
        Ok(())
    );
}

#[test]
fn a_hook_with_several_points_is_called_and_the_others_are_kept() {
    let listed = [
        "PreMigrationSource",
        "GuestDefinition",
        "PreBoot",
        "PreBoot",
    ];
    let plugins = json!([plugin(
        "n",
        json!({"launcherHooks": [launcher_sidecar("n", &listed)]})
    )]);
    assert_eq!(check(&plugins, None), Ok(()));
    assert_eq!(
        parse(&plugins).hooks[0].info(None).uncalled_points,
        ["PreBoot", "PreMigrationSource"]
    );
}

#[test]
fn a_socket_outside_its_directory_and_a_forbidden_sidecar_are_not_admitted() {
    let elsewhere = json!({"sidecar": {"socketPath": "/var/run/libvirt/virtqemud-sock"}});
    let refused = refusal(&json!([plugin(
        "numa",
        json!({"domainHooks": [elsewhere]})
    )]));
    assert!(
        refused.contains("spec.domainHooks[0].sidecar.socketPath"),
        "{refused}"
    );
    assert!(
        refused.contains("is outside /var/run/kubevirt-plugin/numa/"),
        "{refused}"
    );

    let plugins = json!([plugin("numa", json!({"domainHooks": [sidecar("numa")]}))]);
    assert_eq!(check(&plugins, None), Ok(()));
    let error = check(&plugins, Some("sidecars: Forbid\n")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook plugin/numa[0] may not be called at OnDefineDomain: p.yaml:1:11: gRPC sidecars are forbidden"
    );
    assert_eq!(error.event_reason(), "HookDenied");
}

#[test]
fn the_plugin_in_the_documentation_is_admitted() {
    let page = include_str!("../../../../docs/kubevirt-plugins.md");
    let yaml = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let plugin: Value = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(check(&json!([plugin]), Some("sidecars: Allow\n")), Ok(()));
    let hooks = parse(&json!([plugin])).hooks;
    assert!(hooks.len() == 2 && !hooks[0].ignore && hooks[1].ignore);
    assert_eq!(hooks[0].timeout, Duration::from_secs(10));
    let condition = cel_condition::Condition::parse(&hooks[0].conditions[0].text).unwrap();
    let vmi_with_cores = |cores: u64| json!({"metadata": {"labels": {"numa": ""}}, "spec": {"domain": {"cpu": {"cores": cores}}}});
    assert_eq!(condition.holds(&vmi_with_cores(2)), Ok(true));
    assert_eq!(condition.holds(&vmi_with_cores(1)), Ok(false));
}

proptest! {
    #[test]
    fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = Plugins::parse(&bytes);
    }

    #[test]
    fn the_order_is_by_name_then_by_position(names in proptest::collection::vec("[a-c.-]{0,3}", 0..8), hooks in 0usize..4) {
        let plugins: Vec<Value> = names
            .iter()
            .map(|name| plugin(name, json!({"domainHooks": vec![sidecar(name); hooks]})))
            .collect();
        let plugins = parse(&Value::Array(plugins));
        let order = order(&plugins);
        prop_assert_eq!(order.len(), names.len() * hooks);
        prop_assert!(order.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let mut expected: Vec<_> = names.iter().flat_map(|name| (0..hooks).map(move |index| (name.as_str(), index))).collect();
        expected.sort_by_key(|(name, _)| *name);
        prop_assert_eq!(order, expected);
    }
}
