//! `hook.yaml` files: limits, configuration, granted directories, and mistakes in them and in the operator's policy.

use super::*;

#[tokio::test]
async fn limits_and_configuration_are_per_hook() {
    let yaml = "deadline: 100ms\nmemory: 8Mi\nlog: 20\nconfig: {manufacturer: ACME}\npriority: 3\n";
    let chain = chain_of_misbehaving_hook(yaml).await;
    assert_eq!(
        chain.hooks()[0].priority(HookPoint::OnDefineDomain),
        Some(3)
    );
    let started = Instant::now();
    let error = define(&chain, "loop").await.unwrap_err();
    assert!(
        matches!(error, HookError::Deadline { limit, .. } if limit.as_millis() == 100),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(2));
    let error = define(&chain, "memory").await.unwrap_err().to_string();
    assert!(error.contains("may have 8388608"), "{error}");
    assert!(
        define(&chain, "config")
            .await
            .unwrap()
            .contains("<description>ACME<")
    );
    let error = refusal(
        &std::fs::read(crate::fixture::misbehaving_hook()).unwrap(),
        "config:\n  manufacurer: A\n",
    )
    .await;
    assert!(
        error.contains("hook.yaml:2:16: ") && error.contains("manufacurer"),
        "{error}"
    );
}

#[tokio::test]
async fn directories_are_read_only_and_granted() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::write(dir.path().join("f"), "from outside").unwrap();
    std::fs::write(dir.path().with_extension("beside"), "x").unwrap();
    let path = dir.path().display().to_string();
    let module = misbehaving_hook_wishing(&format!("[\"{path}\"]"), DIRS_PLACEHOLDER);
    // A `hook.yaml` alone does not grant a directory.
    let allow_directory = format!("allow: {{dirs: [{path}]}}\n");
    for yaml in ["{}", &allow_directory] {
        let error = refusal(&module, yaml).await;
        assert!(
            error.contains(&path) && error.contains("allow.dirs of the operator's policy"),
            "{error}"
        );
    }
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "odd.wasm", &module);
    let config = CollectConfig {
        policy: PolicySource::File(write_policy(&dirs, "p.yaml", &allow_directory)),
        ..dirs.config(1)
    };
    let chain = collect(config).await.unwrap();
    let read = |file: &str| format!("read\n{file}");
    let xml = define(&chain, &read(&format!("{path}/f"))).await.unwrap();
    assert!(xml.contains("from outside"));
    for outside in [
        format!("{path}/../{}", "etc/passwd"),
        format!("{path}.beside"),
        "/etc/passwd".into(),
    ] {
        assert!(define(&chain, &read(&outside)).await.is_err(), "{outside}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    std::fs::remove_file(dir.path().with_extension("beside")).unwrap();
}

#[tokio::test]
async fn invalid_hook_yaml_and_policy_errors_name_file_line_and_column() {
    let module = std::fs::read(crate::fixture::misbehaving_hook()).unwrap();
    for (yaml, part) in [
        ("failurePolicy: Ignorre\n", "h/hook.yaml:1:16: "),
        ("priorities: 3\n", "h/hook.yaml:1:1: "),
        ("memory: 64Mi\nmemory: 32Mi\n", "h/hook.yaml:2:1: "),
        (
            "allow:\n  paths: ['/domain/devices/disk[']\n",
            "h/hook.yaml:2:11: ",
        ),
        (
            "hookPoints: [{name: OnDefineDomain}]\nallow: {paths: [/domain/**]}\ndeadline: 20s\n",
            "h/hook.yaml:3:11: ",
        ),
    ] {
        let error = refusal(&module, yaml).await;
        assert!(error.contains(part), "{yaml}: {error}");
    }
    let dirs = HookDirs::new();
    let policy = write_policy(&dirs, "p.yaml", "sidecars: Forbid\ndigest: Any\n");
    let config = CollectConfig {
        policy: PolicySource::IfPresent(policy),
        ..dirs.config(0)
    };
    let error = collect(config).await.err().unwrap().to_string();
    assert!(error.contains("policy/p.yaml:2:1: "), "{error}");
}

#[tokio::test]
async fn a_hook_yaml_that_links_out_of_the_directory_is_refused() {
    let dirs = HookDirs::new();
    dirs.put_hook("h");
    dirs.put_modified_an_hour_ago("elsewhere", "real.yaml", b"failurePolicy: Ignore\n");
    symlink("../elsewhere/real.yaml", dirs.at("h", "hook.yaml")).unwrap();
    let config = CollectConfig {
        deadline: Duration::from_secs(10),
        ..dirs.config(1)
    };
    let error = collect(config).await.err().unwrap().to_string();
    assert!(
        error.contains("h/hook.yaml") && error.contains("within the directory"),
        "{error}"
    );
}

#[tokio::test]
async fn a_hook_yaml_that_appears_after_its_module_is_used() {
    let dirs = HookDirs::new();
    dirs.put_hook("a");
    let collecting = tokio::spawn(collect(dirs.config(2)));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    dirs.put("a", ".part", b"priority: 42\n");
    std::fs::rename(dirs.at("a", ".part"), dirs.at("a", "hook.yaml")).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    dirs.put(
        "b",
        ".part",
        &std::fs::read(crate::fixture::misbehaving_hook()).unwrap(),
    );
    std::fs::rename(dirs.at("b", ".part"), dirs.at("b", "odd.wasm")).unwrap();
    let chain = collecting.await.unwrap().unwrap();
    assert_eq!(chain.hooks()[0].priority(HookPoint::Shutdown), Some(42));
}
