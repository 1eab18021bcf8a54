//! KubeVirt plugins with a module in place of the sidecar: a `hook.wasm` beside `hook.sock` runs in this process.
mod unusable_modules;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::plugin_server::{Answer, PluginServer};
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::{
    Chain, CollectConfig, FailurePolicy, HookError, Invocation, Limits, Outcome, Plugins,
    PolicySource, Reason, Run, collect,
};
use serde_json::{Value, json};

/// The directory of plugins, with the misbehaving hook as module of the plugin `odd`.
struct PluginDirs(HookDirs);

impl PluginDirs {
    fn new() -> Self {
        let pod = Self(HookDirs::new());
        fs::create_dir_all(pod.directory("odd")).unwrap();
        fs::copy(crate::fixture::misbehaving_hook(), pod.module()).unwrap();
        pod
    }

    fn directory(&self, plugin: &str) -> PathBuf {
        self.0.hooks().with_file_name("plugins").join(plugin)
    }

    fn module(&self) -> PathBuf {
        self.directory("odd").join("hook.wasm")
    }

    async fn chain(&self, policy: Option<&str>) -> Chain {
        let file = self.0.at("policy", "p.yaml");
        let source = policy.map_or(PolicySource::None, |text| {
            fs::write(&file, text).unwrap();
            PolicySource::File(file)
        });
        let config = CollectConfig {
            plugins_dir: self.directory(""),
            policy: source,
            limits: Limits {
                plugin_socket_timeout: Duration::from_millis(50),
                ..Limits::default()
            },
            ..self.0.config(0)
        };
        collect(config).await.unwrap()
    }

    /// The plugin `odd` with one domain hook, which has these further members.
    fn plugins(&self, members: &Value) -> Plugins {
        let mut hook = json!({"sidecar": {"socketPath": self.directory("odd").join("hook.sock")}});
        let hook_members = hook.as_object_mut().unwrap();
        hook_members.extend(members.as_object().unwrap().clone());
        parse(&json!([{"metadata": {"name": "odd"}, "spec": {"domainHooks": [hook]}}]))
    }

    /// Defines a domain for a VMI, whose first word is the behaviour of the misbehaving hook.
    async fn define(
        &self,
        vmi: &str,
        members: &Value,
        policy: Option<&str>,
    ) -> Result<(String, Vec<Run>), HookError> {
        let (chain, plugins) = (self.chain(policy).await, self.plugins(members));
        chain.check_plugins(vmi, &plugins)?;
        chain
            .on_define_domain_with_plugins(&invocation(), vmi, XML.into(), &plugins)
            .await
    }
}

fn parse(plugins: &Value) -> Plugins {
    Plugins::parse(plugins.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn a_module_beside_the_socket_runs_in_process() {
    let (xml, runs) = PluginDirs::new()
        .define("{}", &json!({}), None)
        .await
        .unwrap();
    assert!(xml.contains("<title>odd</title>"), "{xml}");
    let run = &runs[0];
    assert_eq!(
        (run.hook.as_str(), &run.outcome),
        ("plugin/odd[0]", &Outcome::Ok)
    );
    assert_eq!(run.changes[0].path, "/domain/title");
}

/// A plugin's socket would need the operator's opt-in.
#[tokio::test]
async fn a_module_of_a_plugin_edits_an_arriving_domain() {
    let pod = PluginDirs::new();
    let arrival = Invocation {
        reason: Reason::MigrationTarget,
        ..invocation()
    };
    for policy in [None, Some("sidecarsOnArrival: [other]\n")] {
        let chain = pod.chain(policy).await;
        let plugins = pod.plugins(&json!({}));
        let arrived = chain.on_incoming_domain(&arrival, "{}", XML.into(), &plugins);
        let (xml, runs) = arrived.await.unwrap();
        let names: Vec<_> = runs.iter().map(|run| run.hook.as_str()).collect();
        assert_eq!(names, ["plugin/odd[0]"], "{policy:?}");
        assert!(xml.contains("<title>odd</title>"), "{xml}");
    }
}

#[tokio::test]
async fn a_plugin_without_a_module_is_called_through_its_socket() {
    let pod = PluginDirs::new();
    let directory = pod.directory("plain");
    fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("hook.sock");
    let answer = |xml: String| xml.replace("</domain>", "<description/></domain>");
    let server = PluginServer::serve(&socket, Answer::Domain(Box::new(answer)));
    let plugin = |name: &str, socket: &Path| json!({"metadata": {"name": name}, "spec": {"domainHooks": [{"sidecar": {"socketPath": socket}}]}});
    let odd_socket = pod.directory("odd").join("hook.sock");
    let plugins = parse(&json!([
        plugin("odd", &odd_socket),
        plugin("plain", &socket)
    ]));
    let chain = pod.chain(None).await;
    let defined = chain
        .on_define_domain_with_plugins(&invocation(), "{}", XML.into(), &plugins)
        .await;
    let (xml, _) = defined.unwrap();
    assert!(
        xml.contains("<title>odd</title><description/></domain>"),
        "{xml}"
    );
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn a_veto_of_the_modules_pre_start_stops_the_start() {
    let pod = PluginDirs::new();
    let error = pod.define("veto", &json!({}), None).await.unwrap_err();
    assert!(error.is_veto(), "{error}");
    assert!(error.to_string().contains("plugin/odd[0]"), "{error}");
}

#[tokio::test]
async fn failure_strategy_and_timeout_come_from_the_plugin() {
    let pod = PluginDirs::new();
    fs::write(
        pod.directory("odd").join("hook.yaml"),
        "failurePolicy: Fail\n",
    )
    .unwrap();
    let ignore = json!({"failureStrategy": "Ignore"});
    let (xml, runs) = pod.define("fail", &ignore, None).await.unwrap();
    assert_eq!(xml, XML);
    assert_eq!(runs[0].failure_policy, FailurePolicy::Ignore);
    let short_timeout = json!({"timeout": "200ms"});
    let error = pod.define("loop", &short_timeout, None).await.unwrap_err();
    let limit = Duration::from_millis(200);
    assert!(
        matches!(error, HookError::Deadline { limit: actual, .. } if actual == limit),
        "{error}"
    );
}

#[tokio::test]
async fn the_operators_policy_applies_to_the_module() {
    let pod = PluginDirs::new();
    let policy = Some("allow: {paths: [/domain/os/**]}\n");
    let error = pod
        .define("{}", &json!({}), policy)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/domain/title") && error.contains("p.yaml"),
        "{error}"
    );
    // `sidecars` does not apply to a module.
    let (xml, _) = pod
        .define("{}", &json!({}), Some("sidecars: Forbid\n"))
        .await
        .unwrap();
    assert!(xml.contains("<title>odd</title>"), "{xml}");
}
