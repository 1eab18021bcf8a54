//! KubeVirt's Plugins (v1.9 and v1.10): hooks that virt-handler sends with every Sync. They are called after the
//! chain's own hooks, and are verified, recorded and logged in the same way.
//!
//! ```text
//! pluginsJson ─parse─▶ Plugins ─plan (conditions, policy, socket rules)─▶ hooks ─chain─▶ MutateDomain or
//!                                                                                       GuestDefinition
//! ```
//! If there is a module beside the sidecar's socket, the module is run in this process instead.
//!
//! Plugins are called in alphabetical order, and their hooks in the order of their list. Sources of the rules:
//! `pkg/virt-launcher/virtwrap/plugins` and the `plugin/v1alpha1` types of KubeVirt v1.9, and for v1.10 the types of
//! <https://github.com/kubevirt/kubevirt/pull/19160>.

mod cel_condition;
mod domain_or_launcher_hooks;
mod in_process_module;
mod plan_plugin_hooks;
mod plugin_call;
mod plugin_hook;
mod plugin_json;
mod plugin_socket;

use std::time::Duration;

pub(crate) use in_process_module::{LoadModule, ModuleFile, PluginLoadError};
pub(crate) use plan_plugin_hooks::{PlanContext, PlanEntry};
use plugin_hook::PluginHook;

/// Maximum size of all plugins in bytes: gRPC's own message limit.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of hooks, which are called one after the other.
const MAX_HOOKS: usize = 1000;
/// Maximum size of all conditions in bytes. It limits the time to parse them.
const MAX_CONDITION_BYTES: usize = 64 << 10;
/// Maximum length of a Kubernetes name in bytes.
const MAX_NAME_BYTES: usize = 253;
/// KubeVirt's default timeout of a hook.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum timeout of a hook; a longer timeout is shortened to it.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// The failure strategy that ignores failures. KubeVirt treats every other text as `Fail`.
const IGNORE: &str = "Ignore";

/// The hooks of all Plugins for the launcher, in the order of their calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plugins {
    hooks: Vec<PluginHook>,
}

/// Why the plugins of a request are invalid.
#[derive(Debug, thiserror::Error)]
pub enum PluginsError {
    /// The text is not JSON, or a member has another type than in KubeVirt.
    #[error("failed to deserialize plugins from options: {0}")]
    Json(#[from] serde_json::Error),
    /// The JSON is too large.
    #[error("plugins of {0} bytes are more than the {MAX_BYTES} that are read")]
    TooLarge(usize),
    /// There are too many hooks.
    #[error("plugins with {0} hooks are more than the {MAX_HOOKS} that are called")]
    TooMany(usize),
    /// There are too many conditions.
    #[error(
        "plugins with conditions of {0} bytes are more than the {MAX_CONDITION_BYTES} that are read"
    )]
    ConditionsTooLarge(usize),
    /// A name is longer than a Kubernetes name.
    #[error("a plugin's name has {0} bytes, more than the {MAX_NAME_BYTES} of a Kubernetes name")]
    Name(usize),
}

impl Plugins {
    /// Parses the `pluginsJson` of a request's options. Empty text means no plugins.
    pub fn parse(json: &[u8]) -> Result<Self, PluginsError> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        if json.len() > MAX_BYTES {
            return Err(PluginsError::TooLarge(json.len()));
        }
        let plugins: Option<Vec<Option<plugin_json::Plugin>>> = serde_json::from_slice(json)?;
        let mut plugins: Vec<_> = plugins.into_iter().flatten().flatten().collect();
        if let Some(plugin) = plugins
            .iter()
            .find(|plugin| plugin.metadata.name.len() > MAX_NAME_BYTES)
        {
            return Err(PluginsError::Name(plugin.metadata.name.len()));
        }
        let count = plugins.iter().map(plugin_json::hook_count).sum();
        if count > MAX_HOOKS {
            return Err(PluginsError::TooMany(count));
        }
        let condition_bytes = plugins
            .iter()
            .map(plugin_json::Plugin::condition_bytes)
            .sum();
        if condition_bytes > MAX_CONDITION_BYTES {
            return Err(PluginsError::ConditionsTooLarge(condition_bytes));
        }
        // The sort is stable, so plugins with the same name keep their order.
        plugins.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let hooks: Vec<_> = plugins.into_iter().flat_map(plugin_json::hooks).collect();
        // The hooks that stand for plugins that are refused as a whole count too.
        match hooks.len() {
            0..=MAX_HOOKS => Ok(Self { hooks }),
            count => Err(PluginsError::TooMany(count)),
        }
    }

    /// Whether the Plugins have no hooks for the launcher.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }
}

#[cfg(test)]
mod tests;
