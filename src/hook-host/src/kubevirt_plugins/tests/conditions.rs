//! Tests of conditions of plugins, and of CEL mutations.

use super::*;

/// A plugin with a condition and two sidecar hooks, of which the second has a condition too.
fn conditional(plugin_condition: &str, hook_condition: &str, strategy: &str) -> Value {
    let mut hook = sidecar("numa");
    hook["condition"] = hook_condition.into();
    let hooks = [sidecar("numa"), hook];
    json!([plugin(
        "numa",
        json!({"condition": plugin_condition, "failureStrategy": strategy, "domainHooks": hooks})
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
    assert_eq!(check(&json!([plugin("numa", whole)]), None), Ok(()));
    // A condition that does not hold excludes the hook.
    let mut other = spec(&cel);
    other["condition"] = "vmi.Name == 'other'".into();
    assert_eq!(check(&json!([plugin("numa", other)]), None), Ok(()));
}

#[test]
fn a_hook_is_called_if_all_conditions_hold() {
    let called = |plugin_condition: &str, hook_condition: &str| -> Vec<String> {
        let limits = Limits::default();
        let context = PlanContext {
            operator: None,
            limits: &limits,
            plugins_dir: std::path::Path::new("/var/run/kubevirt-plugin"),
            modules: None,
        };
        let plugins = parse(&conditional(plugin_condition, hook_condition, ""));
        // A plan without modules is ready at once.
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
    assert_eq!(check(&ignored, None), Ok(()));
    // As in KubeVirt, a condition without a value fails the start regardless of the strategy.
    let none = conditional("vmi.Labels['none'] == 'x'", "", "Ignore");
    assert!(refusal(&none).contains("spec.condition of plugin numa: no such key: none"));
    // An invalid condition is accepted if no hook would be called.
    let empty_hook = json!([plugin("n", json!({"condition": "x", "domainHooks": [{}]}))]);
    assert_eq!(check(&empty_hook, None), Ok(()));
}
