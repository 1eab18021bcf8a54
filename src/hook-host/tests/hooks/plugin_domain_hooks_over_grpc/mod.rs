//! Domain hooks of KubeVirt's `Plugin` objects (`spec.domainHooks`), called over gRPC after the chain.
mod failures;
mod incoming_domains;
mod order_and_requests;
mod records;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::plugin_server::{Answer, PluginServer};
use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::record::{Record, RecordConfig};
use hook_host::replay::replay;
use hook_host::wasm::LoadOptions;
use hook_host::{
    Chain, CollectConfig, FailurePolicy, HookError, Limits, Outcome, Plugins, PolicySource, Run,
    collect,
};
use serde_json::{Value, json};

/// The directories of hooks and of plugins in a pod.
struct PodDirs(HookDirs);

impl PodDirs {
    fn new() -> Self {
        Self(HookDirs::new())
    }

    fn plugins_dir(&self) -> PathBuf {
        self.0.hooks().with_file_name("plugins")
    }

    fn socket(&self, plugin: &str) -> PathBuf {
        let directory = self.plugins_dir().join(plugin);
        std::fs::create_dir_all(&directory).unwrap();
        directory.join("hook.sock")
    }

    fn serve(&self, plugin: &str, answer: Answer) -> PluginServer {
        PluginServer::serve(&self.socket(plugin), answer)
    }

    fn config(&self, expected_hooks: usize) -> CollectConfig {
        CollectConfig {
            plugins_dir: self.plugins_dir(),
            limits: Limits {
                plugin_socket_timeout: Duration::from_millis(50),
                ..Limits::default()
            },
            ..self.0.config(expected_hooks)
        }
    }

    async fn chain(&self, expected_hooks: usize) -> Chain {
        collect(self.config(expected_hooks)).await.unwrap()
    }

    /// A chain without other hooks that records every run.
    async fn recording_chain(&self, records: &Path) -> Chain {
        let config = CollectConfig {
            record: Some(RecordConfig {
                dir: records.to_owned(),
                secrets: false,
            }),
            ..self.config(0)
        };
        collect(config).await.unwrap()
    }

    /// A domain hook that calls the plugin's sidecar.
    fn hook(&self, plugin: &str) -> Value {
        json!({"sidecar": {"socketPath": self.socket(plugin)}})
    }

    /// A domain hook that calls the plugin's sidecar, with more members.
    fn hook_with(&self, plugin: &str, members: Value) -> Value {
        let mut hook = self.hook(plugin);
        hook.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        hook
    }
}

fn plugins(list: &[(&str, Vec<Value>)]) -> Plugins {
    let plugin = |(name, hooks): &(&str, Vec<Value>)| json!({"metadata": {"name": name}, "spec": {"domainHooks": hooks}});
    let list: Vec<Value> = list.iter().map(plugin).collect();
    Plugins::parse(Value::Array(list).to_string().as_bytes()).unwrap()
}

async fn define(chain: &Chain, plugins: &Plugins) -> Result<(String, Vec<Run>), HookError> {
    chain
        .on_define_domain_with_plugins(&invocation(), "{}", XML.into(), plugins)
        .await
}

/// An answer that adds an empty element to the domain.
fn add_element(name: &'static str) -> Answer {
    Answer::Domain(Box::new(move |xml| {
        xml.replace("</domain>", &format!("<{name}/></domain>"))
    }))
}
