//! Loads the modules of KubeVirt plugins, one for each plugin hook, as the collection loads modules.

use futures_util::future::BoxFuture;

use super::CollectConfig;
use super::hook_file::HookId;
use super::hook_probe::{Probe, ProbeResult};
use crate::Limits;
use crate::hook::Hook;
use crate::kubevirt_plugins::{LoadModule, ModuleFile};
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
    ) -> BoxFuture<'a, Result<Hook, String>> {
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
            match probe.probe_module(&id).await {
                ProbeResult::Ready(hook) => Ok(*hook),
                ProbeResult::NotReady(reason)
                | ProbeResult::Flawed(reason)
                | ProbeResult::Refused(reason)
                | ProbeResult::Fatal(reason) => Err(reason),
            }
        })
    }
}
