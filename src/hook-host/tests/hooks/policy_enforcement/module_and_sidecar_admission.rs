//! The admission of modules and sidecars to the chain, by `hook.yaml` and the operator's policy.

use super::*;

/// A refused module is neither parsed nor compiled: a file that is not WebAssembly gets the error of the policy.
#[tokio::test]
async fn a_refused_module_never_reaches_the_compiler() {
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "odd.wasm", b"no WebAssembly");
    let listed = "digests: Listed\nrules:\n- digests: ['DIGEST']\n";
    let listed = listed.replace("DIGEST", &"0".repeat(64));
    let config = CollectConfig {
        policy: PolicySource::File(write_policy(&dirs, "p.yaml", &listed)),
        ..dirs.config(1)
    };
    let standing = CollectConfig {
        standing: StandingHooks::In(dirs.hooks()),
        expected: 0,
        ..config.clone()
    };
    let refusals = [
        admit_modules(&config).await.map(drop),
        collect(config).await.map(drop),
        collect(standing).await.map(drop),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap_err().to_string();
        assert!(
            refusal.contains("h/odd.wasm") && refusal.contains("p.yaml:1:10: modules run only"),
            "{refusal}"
        );
    }
    // A digest that only hook.yaml pins is checked before the compiler too.
    dirs.put_modified_an_hour_ago(
        "h",
        "hook.yaml",
        format!("sha256: '{}'\n", "0".repeat(64)).as_bytes(),
    );
    let refusal = admit_modules(&dirs.config(1)).await.map(drop);
    let refusal = refusal.unwrap_err().to_string();
    assert!(refusal.contains("hook.yaml:1:9"), "{refusal}");
}

#[tokio::test]
async fn a_module_with_another_digest_does_not_run() {
    let module = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    let error = refusal(&module, &format!("sha256: {}\n", "0".repeat(64))).await;
    assert!(
        error.contains("h/hook.yaml:1:9") && error.contains("not 0000"),
        "{error}"
    );
    let digest = match &chain_of_misbehaving_hook("{}").await.hooks()[0].kind {
        hook_host::HookKind::Wasm { digest } => digest.clone(),
        other => panic!("{other:?}"),
    };
    assert!(
        collect_with_hook_yaml(&module, &format!("sha256: {digest}\n"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_module_swapped_while_it_is_collected_is_collected_again() {
    // Two hook directories are expected, so the collection is still waiting while `h` is swapped; `i` ends it.
    let dirs = HookDirs::new();
    let module = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    let other = crate::fixture::misbehaving_hook_with("1.2.3", "3.2.1");
    dirs.put("h", "odd.wasm", &module);
    let collecting = tokio::spawn(collect(dirs.config(2)));
    for n in 0..20 {
        dirs.put("h", ".part", if n % 2 == 0 { &other } else { &module });
        std::fs::rename(dirs.at("h", ".part"), dirs.at("h", "odd.wasm")).unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    dirs.put("h", ".part", &other);
    std::fs::rename(dirs.at("h", ".part"), dirs.at("h", "odd.wasm")).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    dirs.put("i", ".part", &module);
    std::fs::rename(dirs.at("i", ".part"), dirs.at("i", "odd.wasm")).unwrap();
    let chain = collecting.await.unwrap().unwrap();
    assert_eq!(chain.hooks()[0].version, "3.2.1");
    assert_eq!(chain.hooks()[1].version, "1.2.3");
}

/// The module is not asked for its description either: `describe` would crash.
#[tokio::test]
async fn a_module_that_no_rule_lists_is_neither_compiled_nor_run() {
    let dirs = HookDirs::new();
    let crashes =
        crate::fixture::misbehaving_hook_with("\"future\": [1, {}]", "\"future\": [3, {}]");
    dirs.put_modified_an_hour_ago("h", "odd.wasm", &crashes);
    for digests in ["Listed", "Pinned"] {
        let other = "0".repeat(64);
        let text = format!("digests: {digests}\nrules: [{{digests: ['{other}'], allow: {{}}}}]\n");
        let config = CollectConfig {
            policy: PolicySource::IfPresent(write_policy(&dirs, "p.yaml", &text)),
            ..dirs.config(1)
        };
        let error = collect(config).await.err().unwrap().to_string();
        assert!(error.contains("modules run only when"), "{error}");
    }
}

#[tokio::test]
async fn a_module_with_an_unstable_description_is_refused() {
    let dirs = HookDirs::new();
    let unstable =
        crate::fixture::misbehaving_hook_with("\"future\": [1, {}]", "\"future\": [2, {}]");
    dirs.put_modified_an_hour_ago("h", "odd.wasm", &unstable);
    let error = collect(dirs.config(1)).await.err().unwrap().to_string();
    assert!(error.contains("differently each time"), "{error}");
}

#[tokio::test]
async fn sidecars_can_be_forbidden_and_are_never_restricted() {
    let dirs = HookDirs::new();
    let behaviour = Behaviour {
        hook_points: vec![("OnDefineDomain", 0)],
        define: |xml| {
            Ok(xml.replace(
                "</domain>",
                "<devices><emulator>/x</emulator></devices></domain>",
            ))
        },
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("s", "s.sock"), behaviour);
    let config_with_policy = |text: &str| CollectConfig {
        policy: PolicySource::File(write_policy(&dirs, "p.yaml", text)),
        ..dirs.config(1)
    };
    let chain = collect(config_with_policy("allow: {paths: []}\n"))
        .await
        .unwrap();
    assert!(define(&chain, "{}").await.unwrap().contains("emulator"));
    let error = collect(config_with_policy("sidecars: Forbid\n"))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("s/s.sock") && error.contains("p.yaml:1:11"),
        "{error}"
    );
}
