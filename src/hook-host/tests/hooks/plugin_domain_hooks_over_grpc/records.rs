//! Records of plugin runs, and their replay.

use super::*;

#[tokio::test]
async fn the_hook_points_that_are_not_called_are_recorded() {
    let pod = PodDirs::new();
    let records = tempfile::tempdir().unwrap();
    let chain = pod.recording_chain(records.path()).await;
    let socket = pod.socket("a");
    let _a = PluginServer::serve_launcher_hooks(&socket, add_element("a"));
    let points = ["PreMigrationSource", "GuestDefinition"];
    let hook = json!({"sidecar": {"socketPath": socket, "permittedHooks": points}});
    let plugin = json!([{"metadata": {"name": "a"}, "spec": {"launcherHooks": [hook]}}]);
    let hooks = Plugins::parse(plugin.to_string().as_bytes()).unwrap();
    define(&chain, &hooks).await.unwrap();
    let file = std::fs::read_dir(records.path()).unwrap().next();
    let record = Record::read(&file.unwrap().unwrap().path()).unwrap();
    assert_eq!(record.outcome, "ok");
    assert_eq!(record.hook.uncalled_points, ["PreMigrationSource"]);
}

#[tokio::test]
async fn an_ignored_cel_mutation_is_recorded() {
    let pod = PodDirs::new();
    let records = tempfile::tempdir().unwrap();
    let chain = pod.recording_chain(records.path()).await;
    let _a = pod.serve("a", add_element("a"));
    let cel = json!({"cel": {"expression": "Domain{}"}, "failureStrategy": "Ignore"});
    let hooks = plugins(&[("a", vec![cel, pod.hook("a")])]);
    chain.check_plugins("{}", &hooks).unwrap();
    let (xml, runs) = define(&chain, &hooks).await.unwrap();
    assert!(xml.contains("<a/>"));
    assert!(matches!(
        runs[0].outcome,
        Outcome::Failed(HookError::Unusable { .. })
    ));

    let mut files: Vec<_> = std::fs::read_dir(records.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let records: Vec<Record> = files
        .iter()
        .map(|file| Record::read(file).unwrap())
        .collect();
    assert_eq!(records.len(), 2, "{files:?}");
    assert_eq!(
        (records[0].hook.hook.as_str(), records[0].outcome.as_str()),
        ("plugin/a[0]", "unusable")
    );
    assert!(
        records[0]
            .reason
            .as_deref()
            .unwrap()
            .contains("spec.domainHooks[0].cel")
    );
    let ran = &records[1];
    assert_eq!(
        (ran.hook.hook.as_str(), ran.outcome.as_str()),
        ("plugin/a[1]", "ok")
    );
    assert_eq!(ran.hook.sidecar.as_deref(), Some("plugins/v1alpha1"));
    assert_eq!(ran.input.domain_xml.as_deref(), Some(XML));
    assert_eq!(ran.changes[0].0, "/domain/a");
    assert!(
        ran.output
            .as_ref()
            .unwrap()
            .domain_xml
            .as_ref()
            .unwrap()
            .contains("<a/>")
    );
}

#[tokio::test]
async fn a_recorded_plugin_run_is_replayed_with_a_module() {
    let pod = PodDirs::new();
    let records = tempfile::tempdir().unwrap();
    let chain = pod.recording_chain(records.path()).await;
    let title = |xml: String| xml.replace("</domain>", "<title>odd</title></domain>");
    let _a = pod.serve("a", Answer::Domain(Box::new(title)));
    let hooks = plugins(&[("a", vec![pod.hook("a")])]);
    define(&chain, &hooks).await.unwrap();
    let file = std::fs::read_dir(records.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let record = Record::read(&file.path()).unwrap();
    let options = LoadOptions {
        artifacts_dir: None,
        ..LoadOptions::default()
    };
    let replayed = replay(&record, crate::fixture::misbehaving_hook(), true, options)
        .await
        .unwrap();
    assert!(
        replayed.difference.is_none_in_effect(),
        "{:?}",
        replayed.difference
    );
}
