use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::{Value, json};

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

fn admit(plugins: &Value, policy: Option<&str>) -> Result<(), HookError> {
    let path = std::path::Path::new("p.yaml");
    let operator = policy.map(|text| OperatorPolicy::parse(path, text).unwrap());
    parse(plugins).admit(
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
    admit(plugins, None).unwrap_err().to_string()
}

#[test]
fn plugins_run_in_order_of_name_and_hooks_in_order_of_position() {
    let two = json!({"domainHooks": [sidecar("b"), {}, sidecar("b"), null]});
    let plugins = parse(&json!([
        plugin("b", two),
        plugin("a-plugin", json!({"domainHooks": [sidecar("a-plugin")]})),
        plugin("B", json!({"domainHooks": [sidecar("B")]})),
    ]));
    let expected = [("B", 0), ("a-plugin", 0), ("b", 0), ("b", 2)];
    assert_eq!(
        order(&plugins),
        expected,
        "as Go compares, and what does nothing is left out"
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
fn malformed_plugins_are_refused() {
    for text in [
        "{",
        "{}",
        "[1]",
        "\u{1}",
        r#"[{"spec":{"domainHooks":{}}}]"#,
        r#"[{"metadata":{"name":1}}]"#,
        r#"[{"spec":{"domainHooks":[{"sidecar":{"socketPath":[]}}]}}]"#,
        r#"[{"spec":{"domainHooks":[{"timeout":5}]}}]"#,
        r#"[{"spec":{"domainHooks":[{"timeout":"5"}]}}]"#,
    ] {
        let error = Plugins::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error.starts_with("failed to deserialize plugins from options: "),
            "{error}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(Plugins::parse(deep.as_bytes()).is_err());
    let hooks = vec![sidecar("a"); MAX_HOOKS + 1];
    let many = json!([plugin("a", json!({"domainHooks": hooks}))]).to_string();
    assert!(matches!(
        Plugins::parse(many.as_bytes()),
        Err(PluginsError::TooMany(_))
    ));
    let long = "x".repeat(MAX_CEL + 1);
    let long = json!([plugin("a", json!({"condition": long}))]).to_string();
    assert!(matches!(
        Plugins::parse(long.as_bytes()),
        Err(PluginsError::TooMuchCel(_))
    ));
    let large = vec![b' '; MAX_BYTES + 1];
    assert!(matches!(
        Plugins::parse(&large),
        Err(PluginsError::TooLarge(_))
    ));
    let name = json!([plugin(&"x".repeat(MAX_NAME + 1), json!({}))]).to_string();
    assert!(matches!(
        Plugins::parse(name.as_bytes()),
        Err(PluginsError::Name(254))
    ));
}

#[test]
fn a_hooks_failure_strategy_overrides_its_plugins() {
    let ignores = |plugin_says: &str, hook_says: &str| {
        let mut hook = sidecar("a");
        hook["failureStrategy"] = hook_says.into();
        let spec = json!({"failureStrategy": plugin_says, "domainHooks": [hook]});
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
    let path = "/var/run/kubevirt-plugin/n/hook.sock".to_owned();
    assert_eq!(plugins.hooks[0].action, Action::Sidecar(path));
    assert_eq!(
        admit(
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
fn what_is_not_known_is_refused_by_name_and_ignored_only_on_request() {
    let cel = |point: &str| json!({"cel": {"hookPoint": point, "expression": "x"}});
    let with = |mut hook: Value, member: &str| {
        hook[member] = json!(1);
        hook
    };
    let good = launcher_sidecar("n", &["GuestDefinition"]);
    let mut deep = good.clone();
    deep["sidecar"]["tls"] = json!({});
    let mut both = good.clone();
    both["cel"] = cel("GuestDefinition")["cel"].clone();
    let mut old = sidecar("n");
    old["sidecar"]["permittedHooks"] = json!(["GuestDefinition"]);
    let place = "spec.launcherHooks[0]";
    for (list, hook, part) in [
        (
            "launcherHooks",
            launcher_sidecar("n", &["PreBoot"]),
            format!("{place} of plugin n is to be called at PreBoot"),
        ),
        (
            "launcherHooks",
            launcher_sidecar("n", &["GuestDefinition", "PreMigrationSource"]),
            "at PreMigrationSource".into(),
        ),
        (
            "launcherHooks",
            launcher_sidecar("n", &["guestdefinition"]),
            "unknown hook point \"guestdefinition\"".into(),
        ),
        (
            "launcherHooks",
            launcher_sidecar("n", &[]),
            "has no sidecar.permittedHooks".into(),
        ),
        (
            "launcherHooks",
            sidecar("n"),
            "has no sidecar.permittedHooks".into(),
        ),
        ("launcherHooks", cel("PreBoot"), "(cel.hookPoint)".into()),
        (
            "launcherHooks",
            cel("GuestDefinition"),
            format!("{place}.cel of plugin n is a CEL mutation"),
        ),
        (
            "launcherHooks",
            json!({}),
            "has neither cel nor sidecar".into(),
        ),
        ("launcherHooks", both, "has both cel and sidecar".into()),
        (
            "launcherHooks",
            with(good.clone(), "after"),
            format!("{place}.after of plugin n is not known here"),
        ),
        (
            "launcherHooks",
            deep,
            format!("{place}.sidecar.tls of plugin n"),
        ),
        (
            "domainHooks",
            with(sidecar("n"), "after"),
            "spec.domainHooks[0].after of plugin n".into(),
        ),
        (
            "domainHooks",
            old,
            "spec.domainHooks[0].sidecar.permittedHooks of plugin n".into(),
        ),
    ] {
        let mut spec = json!({list: [hook]});
        let refused = refusal(&json!([plugin("n", spec.clone())]));
        assert!(
            refused.starts_with("hook plugin/n[0] cannot be called"),
            "{refused}"
        );
        assert!(refused.contains(&part), "{part} is not in {refused}");
        spec["failureStrategy"] = "Ignore".into();
        assert_eq!(
            admit(&json!([plugin("n", spec.clone())]), None),
            Ok(()),
            "{spec}"
        );
        spec["failureStrategy"] = "".into();
        spec["condition"] = "vmi.Name == 'other'".into();
        assert_eq!(
            admit(&json!([plugin("n", spec.clone())]), None),
            Ok(()),
            "{spec}"
        );
    }
    let unknown = refusal(&json!([plugin(
        "n",
        json!({"gpu\u{1b}Hooks": [{}], "launcherHooks": [good]})
    )]));
    assert!(
        unknown.starts_with("hook plugin/n cannot be called"),
        "{unknown}"
    );
    assert!(
        unknown.contains("spec.gpu\\u{1b}Hooks of plugin n is not known here"),
        "{unknown}"
    );
    let mixed = refusal(&json!([plugin(
        "n",
        json!({"domainHooks": [sidecar("n")], "launcherHooks": [good]})
    )]));
    assert!(mixed.contains("has both spec.domainHooks"), "{mixed}");
    // An absent member.
    assert_eq!(
        admit(
            &json!([plugin(
                "n",
                json!({"launcherHooks": [good], "gpuHooks": null})
            )]),
            None
        ),
        Ok(())
    );
    let many: Vec<_> = (0..=MAX_HOOKS)
        .map(|n| plugin(&n.to_string(), json!({"gpuHooks": 1})))
        .collect();
    assert!(matches!(
        Plugins::parse(json!(many).to_string().as_bytes()),
        Err(PluginsError::TooMany(_))
    ));
}

/// One sidecar hook, with a condition of its plugin and one of its own.
fn conditional(plugin_says: &str, hook_says: &str, strategy: &str) -> Value {
    let mut hook = sidecar("numa");
    hook["condition"] = hook_says.into();
    let hooks = [sidecar("numa"), hook];
    json!([plugin(
        "numa",
        json!({"condition": plugin_says, "failureStrategy": strategy, "domainHooks": hooks})
    )])
}

#[test]
fn a_cel_mutation_is_refused_unless_its_strategy_is_ignore() {
    let cel = json!({"cel": {"expression": "Domain{Title: \"x\"}"}});
    let spec = |hook: &Value| json!({"domainHooks": [sidecar("numa"), hook]});
    let refused = refusal(&json!([plugin("numa", spec(&cel))]));
    assert!(
        refused.starts_with(
            "hook plugin/numa[1] cannot be called at OnDefineDomain: \
            spec.domainHooks[1].cel of plugin numa is a CEL mutation"
        ),
        "{refused}"
    );
    let mut both = sidecar("numa");
    both["cel"] = cel["cel"].clone();
    assert!(refusal(&json!([plugin("numa", spec(&both))])).contains("domainHooks[1].cel"));
    let mut whole = spec(&cel);
    whole["failureStrategy"] = "Ignore".into();
    assert_eq!(admit(&json!([plugin("numa", whole)]), None), Ok(()));
    // A condition that does not hold excludes the hook.
    let mut other = spec(&cel);
    other["condition"] = "vmi.Name == 'other'".into();
    assert_eq!(admit(&json!([plugin("numa", other)]), None), Ok(()));
}

#[test]
fn a_hook_is_called_if_all_conditions_hold() {
    let called = |plugin_says: &str, hook_says: &str| -> Vec<String> {
        let limits = Limits::default();
        let context = PlanContext {
            operator: None,
            limits: &limits,
            plugins_dir: std::path::Path::new("/var/run/kubevirt-plugin"),
            modules: None,
        };
        let plugins = parse(&conditional(plugin_says, hook_says, ""));
        // Without modules a plan waits for nothing.
        let plan = plugins.plan(VMI, context).now_or_never().unwrap();
        let called = plan.into_iter().map(|entry| match entry {
            PlanEntry::Hook(hook) => hook.info.hook,
            PlanEntry::Skipped { condition, .. } => condition,
        });
        called.collect()
    };
    let (app, other) = ("vmi.Labels.app == 'test'", "vmi.Name == 'other'");
    assert_eq!(called("", ""), ["plugin/numa[0]", "plugin/numa[1]"]);
    assert_eq!(called(app, app), ["plugin/numa[0]", "plugin/numa[1]"]);
    assert_eq!(
        called("", other),
        ["plugin/numa[0]", "spec.domainHooks[1].condition"]
    );
    assert_eq!(
        called(other, "what@ever"),
        ["spec.condition", "spec.condition"]
    );
}

#[test]
fn an_unsupported_condition_is_refused_with_its_position() {
    let refused = refusal(&conditional("", "domainSpec.Type == 'kvm'", ""));
    assert!(
        refused
            .contains("spec.domainHooks[1].condition of plugin numa: \"domainSpec\" is not known"),
        "{refused}"
    );
    let whole = conditional("domainSpec.Type == 'kvm'", "", "");
    assert!(refusal(&whole).contains("spec.condition of plugin numa: "));
    let ignored = conditional("domainSpec.Type == 'kvm'", "", "Ignore");
    assert_eq!(admit(&ignored, None), Ok(()));
    // KubeVirt fails here, whatever the strategy is.
    let none = conditional("vmi.Labels['none'] == 'x'", "", "Ignore");
    assert!(refusal(&none).contains("spec.condition of plugin numa: no such key: none"));
    // A condition over nothing that would be called.
    let nothing = json!([plugin("n", json!({"condition": "x", "domainHooks": [{}]}))]);
    assert_eq!(admit(&nothing, None), Ok(()));
}

#[test]
fn a_socket_elsewhere_and_a_forbidden_sidecar_are_refused_before_anything_starts() {
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
    assert_eq!(admit(&plugins, None), Ok(()));
    let error = admit(&plugins, Some("sidecars: Forbid\n")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook plugin/numa[0] may not be called at OnDefineDomain: p.yaml:1:11: gRPC sidecars are forbidden"
    );
    assert_eq!(error.event_reason(), "HookDenied");
}

#[test]
fn the_documented_plugin_can_be_called() {
    let page = include_str!("../../../../docs/plugins.md");
    let yaml = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let plugin: Value = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(admit(&json!([plugin]), Some("sidecars: Allow\n")), Ok(()));
    let hooks = parse(&json!([plugin])).hooks;
    assert!(hooks.len() == 2 && !hooks[0].ignore && hooks[1].ignore);
    assert_eq!(hooks[0].timeout, Duration::from_secs(10));
    let condition = condition::Condition::parse(&hooks[0].conditions[0].text).unwrap();
    let of = |cores: u64| json!({"metadata": {"labels": {"numa": ""}}, "spec": {"domain": {"cpu": {"cores": cores}}}});
    assert_eq!(condition.holds(&of(2)), Ok(true));
    assert_eq!(condition.holds(&of(1)), Ok(false));
}

proptest! {
    #[test]
    fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = Plugins::parse(&bytes);
    }

    #[test]
    fn the_order_is_by_name_then_by_place(names in proptest::collection::vec("[a-c.-]{0,3}", 0..8), hooks in 0usize..4) {
        let plugins: Vec<Value> = names
            .iter()
            .map(|name| plugin(name, json!({"domainHooks": vec![sidecar(name); hooks]})))
            .collect();
        let plugins = parse(&Value::Array(plugins));
        let order = order(&plugins);
        prop_assert_eq!(order.len(), names.len() * hooks);
        prop_assert!(order.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let mut expected: Vec<_> = names.iter().flat_map(|name| (0..hooks).map(move |at| (name.as_str(), at))).collect();
        expected.sort_by_key(|(name, _)| *name);
        prop_assert_eq!(order, expected);
    }
}
