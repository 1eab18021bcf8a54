//! Plugins after the chain, with real sidecars and failures.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fixture::plugin_server::{Answer, PluginServer};
use fixture::sidecar_server::{Behaviour, Sidecar};
use fixture::{HookDirs, XML, invocation};
use hook_host::record::{Record, RecordConfig};
use hook_host::replay::replay;
use hook_host::wasm::LoadOptions;
use hook_host::{
    Chain, CollectConfig, FailurePolicy, HookError, Limits, Outcome, Plugins, PolicySource, Run,
    collect,
};
use serde_json::{Value, json};

/// Hooks, and beside them the plugins' directories.
struct Pod(HookDirs);

impl Pod {
    fn new() -> Self {
        Self(HookDirs::new())
    }

    fn plugins(&self) -> PathBuf {
        self.0.hooks().with_file_name("plugins")
    }

    fn socket(&self, plugin: &str) -> PathBuf {
        let directory = self.plugins().join(plugin);
        std::fs::create_dir_all(&directory).unwrap();
        directory.join("hook.sock")
    }

    fn serve(&self, plugin: &str, answer: Answer) -> PluginServer {
        PluginServer::serve(&self.socket(plugin), answer)
    }

    fn config(&self, expected: usize) -> CollectConfig {
        CollectConfig {
            plugins_dir: self.plugins(),
            limits: Limits {
                plugin_ready: Duration::from_millis(50),
                ..Limits::default()
            },
            ..self.0.config(expected)
        }
    }

    async fn chain(&self, expected: usize) -> Chain {
        collect(self.config(expected)).await.unwrap()
    }

    /// Without other hooks, and every run leaves a record.
    async fn recorded(&self, records: &Path) -> Chain {
        let config = CollectConfig {
            record: Some(RecordConfig {
                dir: records.to_owned(),
                secrets: false,
            }),
            ..self.config(0)
        };
        collect(config).await.unwrap()
    }

    /// A domain hook that asks the plugin's sidecar.
    fn hook(&self, plugin: &str) -> Value {
        json!({"sidecar": {"socketPath": self.socket(plugin)}})
    }

    /// The same with more in it.
    fn hook_with(&self, plugin: &str, more: Value) -> Value {
        let mut hook = self.hook(plugin);
        hook.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        hook
    }
}

fn plugins(list: &[(&str, Vec<Value>)]) -> Plugins {
    let plugin = |(name, hooks): &(&str, Vec<Value>)| json!({"metadata": {"name": name}, "spec": {"domainHooks": hooks}});
    let list: Vec<Value> = list.iter().map(plugin).collect();
    Plugins::parse(Value::Array(list).to_string().as_bytes()).unwrap()
}

async fn define(chain: &Chain, plugins: &Plugins) -> Result<(String, Vec<Run>), HookError> {
    chain.define(&invocation(), "{}", XML.into(), plugins).await
}

fn element(name: &'static str) -> Answer {
    Answer::Domain(Box::new(move |xml| {
        xml.replace("</domain>", &format!("<{name}/></domain>"))
    }))
}

#[tokio::test]
async fn plugins_run_after_the_hooks_in_order_of_name() {
    let pod = Pod::new();
    pod.0.put_hook("hook-sidecar-1");
    let hook = Behaviour {
        hook_points: vec![("OnDefineDomain", -7)],
        define: |xml| Ok(xml.replace("</domain>", "<description>s</description></domain>")),
        ..Behaviour::default()
    };
    let _hook = Sidecar::serve(&pod.0.at("hook-sidecar-0", "s.sock"), hook);
    let (b, a) = (pod.serve("b", element("b")), pod.serve("a", element("a")));
    let chain = pod.chain(2).await;
    let plugins = plugins(&[
        ("b", vec![pod.hook("b"), pod.hook("b")]),
        ("a", vec![pod.hook("a")]),
    ]);
    chain.admit("{}", &plugins).unwrap();
    let (xml, runs) = define(&chain, &plugins).await.unwrap();
    let end = "<title>odd</title><description>s</description><a/><b/><b/></domain>";
    assert!(xml.contains(end), "{xml}");
    let order: Vec<_> = runs.iter().map(|run| run.hook.as_str()).collect();
    let expected = [
        "hook-sidecar-1",
        "hook-sidecar-0",
        "plugin/a[0]",
        "plugin/b[0]",
        "plugin/b[1]",
    ];
    assert_eq!(order, expected);
    assert_eq!(runs[2].changes[0].path, "/domain/a");
    assert_eq!(
        chain.last_touched("/domain/a").as_deref(),
        Some("plugin/a[0]")
    );
    assert_eq!(
        chain.last_touched("/domain/title").as_deref(),
        Some("hook-sidecar-1")
    );
    assert_eq!((a.calls().len(), b.calls().len()), (1, 2));
    let call = &a.calls()[0];
    assert_eq!(
        (call.domain_type.as_str(), call.context.as_str()),
        ("libvirt", "Boot")
    );
    assert_eq!(call.vmi, "{}");
    assert!(call.domain.contains("<description>"), "{}", call.domain);
}

#[tokio::test]
async fn launcher_hooks_call_the_service_of_v1_10() {
    let pod = Pod::new();
    let (a, b) = (pod.socket("a"), pod.socket("b"));
    let new = PluginServer::serve_launcher_hooks(&a, element("a"));
    let old = PluginServer::serve(&b, element("b"));
    let chain = pod.chain(0).await;
    let plugin = |name: &str, socket: &Path, strategy: &str| {
        let sidecar = json!({"socketPath": socket, "permittedHooks": ["GuestDefinition"]});
        let hook = json!({"sidecar": sidecar, "failureStrategy": strategy});
        json!({"metadata": {"name": name}, "spec": {"launcherHooks": [hook]}})
    };
    let parse = |list: Value| Plugins::parse(list.to_string().as_bytes()).unwrap();
    let plugins = parse(json!([plugin("a", &a, "Fail"), plugin("b", &b, "Ignore")]));
    let (xml, runs) = define(&chain, &plugins).await.unwrap();
    assert!(xml.contains("<a/>") && !xml.contains("<b/>"), "{xml}");
    assert_eq!(
        (runs[0].hook.as_str(), &runs[0].outcome),
        ("plugin/a[0]", &Outcome::Ok)
    );
    assert_eq!((new.calls().len(), old.calls().len()), (1, 0));
    let call = &new.calls()[0];
    assert_eq!(
        (
            call.domain_type.as_str(),
            call.context.as_str(),
            call.vmi.as_str()
        ),
        ("libvirt", "Boot", "{}")
    );
    // A sidecar that only has the service of v1.9.
    let error = define(&chain, &parse(json!([plugin("b", &b, "Fail")]))).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("GuestDefinition RPC to b failed with Unimplemented"),
        "{error}"
    );
}

#[tokio::test]
async fn plugins_run_without_any_hook() {
    let pod = Pod::new();
    let _a = pod.serve("a", element("a"));
    let chain = pod.chain(0).await;
    let plugins = plugins(&[("a", vec![pod.hook("a")])]);
    let (xml, runs) = define(&chain, &plugins).await.unwrap();
    assert!(xml.contains("<a/></domain>") && runs.len() == 1, "{xml}");
    let (xml, runs) = define(&chain, &Plugins::default()).await.unwrap();
    assert_eq!(
        (xml.as_str(), runs.len()),
        (XML, 0),
        "without any, nothing is touched"
    );
}

#[tokio::test]
async fn the_reason_of_a_migration_target_is_passed() {
    let pod = Pod::new();
    let a = pod.serve("a", element("a"));
    let chain = pod.chain(0).await;
    let plugins = plugins(&[("a", vec![pod.hook("a")])]);
    let arrival = hook_host::Invocation {
        reason: hook_host::Reason::MigrationTarget,
        ..invocation()
    };
    chain
        .define(&arrival, "{}", XML.into(), &plugins)
        .await
        .unwrap();
    assert_eq!(a.calls()[0].context, "MigrationTarget");
}

#[tokio::test]
async fn sidecars_and_plugins_edit_an_incoming_domain_only_if_the_policy_allows_it() {
    const TITLE: &str = "<title>of the plugin</title>";
    let pod = Pod::new();
    let behaviour = || Behaviour {
        define: |xml| Ok(xml.replace("</domain>", "<description>s</description></domain>")),
        ..Behaviour::default()
    };
    let sidecar = Sidecar::serve(&pod.0.at("hook-sidecar-0", "s.sock"), behaviour());
    let entitle = |xml: String| xml.replace("</domain>", &format!("{TITLE}</domain>"));
    let plugin = pod.serve("a", Answer::Domain(Box::new(entitle)));
    let plugins = plugins(&[("a", vec![pod.hook("a")])]);
    let arrival = hook_host::Invocation {
        reason: hook_host::Reason::MigrationTarget,
        ..invocation()
    };
    let file = pod.0.hooks().with_file_name("policy.yaml");
    for (policy, called) in [
        ("{}", vec![]),
        (
            "sidecarsOnArrival: [hook-sidecar-0]",
            vec!["hook-sidecar-0"],
        ),
        (
            "sidecarsOnArrival: [a, hook-sidecar-0]",
            vec!["hook-sidecar-0", "plugin/a[0]"],
        ),
    ] {
        std::fs::write(&file, format!("{policy}\n")).unwrap();
        let config = CollectConfig {
            policy: PolicySource::File(file.clone()),
            ..pod.config(1)
        };
        let chain = collect(config).await.unwrap();
        let arrived = chain.on_incoming_domain(&arrival, "{}", XML.into(), &plugins);
        let (xml, runs) = arrived.await.unwrap();
        let names: Vec<_> = runs.iter().map(|run| run.hook.as_str()).collect();
        assert_eq!(names, called, "{policy}");
        assert_eq!(xml.contains("<description>"), !called.is_empty(), "{xml}");
        assert_eq!(xml.contains(TITLE), called.len() == 2, "{xml}");
    }
    assert_eq!((sidecar.calls().len(), plugin.calls().len()), (2, 1));
}

#[tokio::test]
async fn change_of_an_opted_in_sidecar_that_libvirt_would_refuse_is_its_failure() {
    let pod = Pod::new();
    let appends = Behaviour {
        define: |xml| {
            Ok(xml.replace(
                "</domain>",
                "<devices><rng model='virtio'/></devices></domain>",
            ))
        },
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&pod.0.at("hook-sidecar-0", "s.sock"), appends);
    let file = pod.0.hooks().with_file_name("policy.yaml");
    std::fs::write(&file, "sidecarsOnArrival: [hook-sidecar-0]\n").unwrap();
    let config = CollectConfig {
        policy: PolicySource::File(file),
        ..pod.config(1)
    };
    let chain = collect(config).await.unwrap();
    let refused = chain
        .on_incoming_domain(&invocation(), "{}", XML.into(), &Plugins::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("hook-sidecar-0") && refused.contains("/domain/devices"),
        "{refused}"
    );
}

/// One plugin that goes wrong, followed by one that works; and the error, or what came of it.
async fn failing_then_working(
    answer: Answer,
    more: Value,
) -> Result<(String, Vec<Run>), HookError> {
    let pod = Pod::new();
    let _servers = (pod.serve("a", answer), pod.serve("b", element("b")));
    let chain = pod.chain(0).await;
    let hooks = plugins(&[
        ("a", vec![pod.hook_with("a", more)]),
        ("b", vec![pod.hook("b")]),
    ]);
    define(&chain, &hooks).await
}

#[tokio::test]
async fn failing_plugin_stops_the_start_and_the_error_contains_its_name() {
    let error = failing_then_working(Answer::Error("no board"), json!({}))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook sidecar plugin/a[0] failed at OnDefineDomain (plugins/v1alpha1): \
         MutateDomain RPC to a failed with Internal: no board"
    );
    assert_eq!(
        (error.hook(), error.event_reason()),
        ("plugin/a[0]", "HookFailed")
    );
}

#[tokio::test]
async fn a_failing_plugin_with_ignore_is_skipped_and_recorded() {
    let ignore = json!({"failureStrategy": "Ignore"});
    let (xml, runs) = failing_then_working(Answer::Error("no board"), ignore)
        .await
        .unwrap();
    assert!(xml.contains("<b/></domain>"), "{xml}");
    assert!(matches!(
        &runs[0].outcome,
        Outcome::Failed(HookError::Sidecar { .. })
    ));
    assert_eq!(runs[0].failure_policy, FailurePolicy::Ignore);
    assert_eq!(runs[1].outcome, Outcome::Ok);
}

#[tokio::test]
async fn invalid_domains_of_plugins_are_refused() {
    let bytes = |bytes: &[u8]| Answer::Bytes(bytes.to_vec());
    let elsewhere = Answer::Domain(Box::new(|xml| xml.replace("ns_vm", "other")));
    for (answer, part) in [
        (bytes(b""), "empty"),
        (bytes(b"\xff\xfe"), "UTF-16"),
        (bytes(b"<a>\xff</a>"), "not UTF-8"),
        (bytes(b"not XML"), "malformed XML"),
        (bytes(b"<network/>"), "<network>"),
        (elsewhere, "/domain/name"),
    ] {
        let error = failing_then_working(answer, json!({})).await.unwrap_err();
        assert!(matches!(error, HookError::BadOutput { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let flood = Answer::Bytes(vec![b' '; 10 << 20]);
    let error = failing_then_working(flood, json!({})).await.unwrap_err();
    assert!(matches!(error, HookError::Sidecar { .. }), "{error:?}");
    assert!(error.to_string().contains("too large"), "{error}");
}

#[tokio::test]
async fn a_plugin_has_its_own_timeout() {
    let patient = json!({"timeout": "100ms"});
    let error = failing_then_working(Answer::Never, patient.clone())
        .await
        .unwrap_err();
    let limit = Duration::from_millis(100);
    assert!(
        matches!(error, HookError::Deadline { limit: had, .. } if had == limit),
        "{error:?}"
    );
    let ignored = json!({"timeout": "100ms", "failureStrategy": "Ignore"});
    let (xml, _) = failing_then_working(Answer::Never, ignored).await.unwrap();
    assert!(xml.contains("<b/>"));
    // KubeVirt's deadline of zero has passed before the call.
    let error = failing_then_working(element("a"), json!({"timeout": "0s"}))
        .await
        .unwrap_err();
    assert!(matches!(error, HookError::Deadline { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_socket_is_awaited_and_named() {
    let pod = Pod::new();
    let hooks = plugins(&[("a", vec![pod.hook("a")])]);
    let error = define(&pod.chain(0).await, &hooks)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("plugins/a/hook.sock not ready after 50ms"),
        "{error}"
    );

    let patient = CollectConfig {
        limits: Limits {
            plugin_ready: Duration::from_secs(60),
            ..Limits::default()
        },
        ..pod.config(0)
    };
    let chain = collect(patient).await.unwrap();
    let come = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        pod.serve("a", element("a"))
    };
    let (defined, _late) = tokio::join!(define(&chain, &hooks), come);
    assert!(defined.unwrap().0.contains("<a/>"));
}

#[tokio::test]
async fn a_socket_outside_of_the_plugins_directory_is_not_dialled() {
    let pod = Pod::new();
    let victim = pod.serve("b", element("b"));
    std::os::unix::fs::symlink("../b/hook.sock", pod.socket("a")).unwrap();
    let chain = pod.chain(0).await;
    let linked = plugins(&[("a", vec![pod.hook("a")])]);
    chain.admit("{}", &linked).unwrap();
    let error = define(&chain, &linked).await.unwrap_err().to_string();
    assert!(
        error.contains("is a symlink, which is not allowed"),
        "{error}"
    );
    let other = plugins(&[("a", vec![pod.hook("b")])]);
    let refused = chain.admit("{}", &other).unwrap_err();
    assert!(refused.to_string().contains("is outside"), "{refused}");
    assert_eq!(define(&chain, &other).await.unwrap_err(), refused);
    assert!(victim.calls().is_empty());
}

#[tokio::test]
async fn an_ignored_cel_mutation_is_recorded() {
    let pod = Pod::new();
    let records = tempfile::tempdir().unwrap();
    let chain = pod.recorded(records.path()).await;
    let _a = pod.serve("a", element("a"));
    let cel = json!({"cel": {"expression": "Domain{}"}, "failureStrategy": "Ignore"});
    let hooks = plugins(&[("a", vec![cel, pod.hook("a")])]);
    chain.admit("{}", &hooks).unwrap();
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
    let pod = Pod::new();
    let records = tempfile::tempdir().unwrap();
    let chain = pod.recorded(records.path()).await;
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
    let replayed = replay(&record, fixture::misbehaving_hook(), true, options)
        .await
        .unwrap();
    assert!(
        replayed.difference.is_none_in_effect(),
        "{:?}",
        replayed.difference
    );
}

#[tokio::test]
async fn the_operator_can_forbid_plugin_sidecars() {
    let pod = Pod::new();
    let a = pod.serve("a", element("a"));
    let policy = pod.plugins().join("policy.yaml");
    std::fs::write(&policy, "sidecars: Forbid\n").unwrap();
    let config = CollectConfig {
        policy: PolicySource::File(policy),
        ..pod.config(0)
    };
    let chain = collect(config).await.unwrap();
    let hooks = plugins(&[("a", vec![pod.hook("a")])]);
    let refused = chain.admit("{}", &hooks).unwrap_err();
    assert!(
        matches!(refused, HookError::Forbidden { .. }),
        "{refused:?}"
    );
    assert_eq!(define(&chain, &hooks).await.unwrap_err(), refused);
    let ignored = plugins(&[(
        "a",
        vec![pod.hook_with("a", json!({"failureStrategy": "Ignore"}))],
    )]);
    chain.admit("{}", &ignored).unwrap();
    assert_eq!(define(&chain, &ignored).await.unwrap().0, XML);
    assert!(a.calls().is_empty());
}
