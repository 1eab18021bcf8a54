//! Loads the modules of KubeVirt plugins, one for each plugin hook, as the collection loads modules.

use futures_util::future::BoxFuture;

use super::CollectConfig;
use super::hook_file::HookId;
use super::hook_probe::{Probe, ProbeResult};
use crate::Limits;
use crate::hook::Hook;
use crate::kubevirt_plugins::{LoadModule, ModuleFile, PluginLoadError};
use crate::policy::OperatorPolicy;

/// Loads modules of plugins, each with a new loader: plugins are known only at a boot, and
/// a loader takes memory as long as it exists.
pub(super) struct PluginModuleLoader {
    pub(super) config: CollectConfig,
    pub(super) operator: Option<OperatorPolicy>,
}

impl LoadModule for PluginModuleLoader {
    fn load_module<'a>(
        &'a self,
        file: &'a ModuleFile,
        limits: Limits,
    ) -> BoxFuture<'a, Result<Hook, PluginLoadError>> {
        let loader = self.config.loader(self.operator.as_ref());
        let config = CollectConfig {
            limits,
            ..self.config.clone()
        };
        let probe = Probe::new(&config, loader, self.operator.clone());
        let probe = probe.in_directory(&config.plugins_dir);
        let id = HookId {
            directory: file.plugin.clone(),
            file: file.file.clone(),
        };
        Box::pin(async move {
            let reason = match probe.probe_module(&id).await {
                ProbeResult::Ready(hook) => return Ok(*hook),
                ProbeResult::NotReady(reason)
                | ProbeResult::Flawed(reason)
                | ProbeResult::Refused(reason)
                | ProbeResult::Fatal(reason) => reason,
            };
            // A plugin that exchanges its module now could have done so before.
            let digest = match self.operator {
                Some(_) => probe.module_digest(&id).await,
                None => None,
            };
            Err(PluginLoadError {
                reason,
                final_rule: self.final_rule(digest.as_deref()),
            })
        })
    }

    fn final_rule_of_unknown_module(&self) -> Option<String> {
        self.final_rule(None)
    }
}

impl PluginModuleLoader {
    fn final_rule(&self, digest: Option<&str>) -> Option<String> {
        let operator = self.operator.as_ref()?;
        operator.first_final_rule(digest, &self.config.namespace)
    }
}
