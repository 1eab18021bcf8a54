//! Tests of plugins with malformed JSON, and with fields and values that this host does not know.

use super::*;

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
    let nested = "[".repeat(100_000);
    assert!(Plugins::parse(nested.as_bytes()).is_err());
    let hooks = vec![sidecar("a"); MAX_HOOKS + 1];
    let many = json!([plugin("a", json!({"domainHooks": hooks}))]).to_string();
    assert!(matches!(
        Plugins::parse(many.as_bytes()),
        Err(PluginsError::TooMany(_))
    ));
    let long = "x".repeat(MAX_CONDITION_BYTES + 1);
    let long = json!([plugin("a", json!({"condition": long}))]).to_string();
    assert!(matches!(
        Plugins::parse(long.as_bytes()),
        Err(PluginsError::ConditionsTooLarge(_))
    ));
    let large = vec![b' '; MAX_BYTES + 1];
    assert!(matches!(
        Plugins::parse(&large),
        Err(PluginsError::TooLarge(_))
    ));
    let name = json!([plugin(&"x".repeat(MAX_NAME_BYTES + 1), json!({}))]).to_string();
    assert!(matches!(
        Plugins::parse(name.as_bytes()),
        Err(PluginsError::Name(254))
    ));
}

#[test]
fn unknown_fields_are_refused_by_name_unless_the_strategy_is_ignore() {
    let cel = |point: &str| json!({"cel": {"hookPoint": point, "expression": "x"}});
    let with_member = |mut hook: Value, member: &str| {
        hook[member] = json!(1);
        hook
    };
    let good = launcher_sidecar("n", &["GuestDefinition"]);
    let mut nested = good.clone();
    nested["sidecar"]["tls"] = json!({});
    let mut both = good.clone();
    both["cel"] = cel("GuestDefinition")["cel"].clone();
    let mut v1_9_hook = sidecar("n");
    v1_9_hook["sidecar"]["permittedHooks"] = json!(["GuestDefinition"]);
    let place = "spec.launcherHooks[0]";
    for (list, hook, part) in [
        (
            "launcherHooks",
            launcher_sidecar("n", &["PreBoot"]),
            format!("{place} of plugin n is to be called at PreBoot"),
        ),
        (
            "launcherHooks",
            launcher_sidecar("n", &["PreBoot", "PreMigrationSource"]),
            "at PreBoot and PreMigrationSource only".into(),
        ),
        (
            "launcherHooks",
            launcher_sidecar("n", &["GuestDefinition", "PostBoot"]),
            "unknown hook point \"PostBoot\" in sidecar.permittedHooks".into(),
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
            with_member(good.clone(), "after"),
            format!("{place}.after of plugin n is not known here"),
        ),
        (
            "launcherHooks",
            nested,
            format!("{place}.sidecar.tls of plugin n"),
        ),
        (
            "domainHooks",
            with_member(sidecar("n"), "after"),
            "spec.domainHooks[0].after of plugin n".into(),
        ),
        (
            "domainHooks",
            v1_9_hook,
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
            check(&json!([plugin("n", spec.clone())]), None),
            Ok(()),
            "{spec}"
        );
        spec["failureStrategy"] = "".into();
        spec["condition"] = "vmi.Name == 'other'".into();
        assert_eq!(
            check(&json!([plugin("n", spec.clone())]), None),
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
    // An unknown member that is `null` counts as absent.
    assert_eq!(
        check(
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
