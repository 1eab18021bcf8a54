//! KubeVirt's Plugins (v1.9 and v1.10): hooks that virt-handler names with every Sync, called after the
//! chain's own hooks, each through the same checks, record and log.
//!
//! ```text
//! pluginsJson ─parse─▶ Plugins ─plan (conditions, policy, socket rules)─▶ hooks ─chain─▶ MutateDomain or
//!                                                                                       GuestDefinition
//! ```
//! A module beside the socket is run in process instead of the sidecar.
//!
//! Plugins run alphabetically, their hooks in the order in which they stand there. Sources of the
//! rules: KubeVirt v1.9's `pkg/virt-launcher/virtwrap/plugins` and its `plugin/v1alpha1` types, and for v1.10 the types
//! of <https://github.com/kubevirt/kubevirt/pull/19160>.

mod condition;
mod hook_body;
mod hooks_of_plugin;
mod in_process_module;
mod plugin_call;
mod plugin_json;
mod plugin_socket;
mod select_plugin_hooks;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use hooks_of_plugin::HookList;
pub(crate) use in_process_module::{LoadModule, ModuleFile};
pub(crate) use select_plugin_hooks::{PlanContext, PlanEntry};

/// The most bytes of plugins, which is gRPC's own message limit.
const MAX_BYTES: usize = 4 << 20;
/// The most hooks: they are called one after the other.
const MAX_HOOKS: usize = 1000;
/// The most bytes of conditions, which bounds the time to parse them.
const MAX_CEL: usize = 64 << 10;
/// The longest Kubernetes name.
const MAX_NAME: usize = 253;
/// KubeVirt's default timeout of a hook.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest timeout that a hook gets.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// The only strategy that differs from `Fail`: KubeVirt treats every other text as `Fail`.
const IGNORE: &str = "Ignore";

/// The launcher's hooks of all Plugins, in the order in which they are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plugins {
    hooks: Vec<PluginHook>,
}

/// One hook of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PluginHook {
    plugin: String,
    list: HookList,
    /// The index in the list; `None` for a plugin that is refused as a whole.
    index: Option<usize>,
    ignore: bool,
    timeout: Duration,
    /// The hook is called if all conditions hold, evaluated in this order.
    conditions: Vec<Condition>,
    action: Action,
}

/// The text of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    /// The member that holds the condition.
    member: String,
    /// Shared by all hooks of a plugin.
    text: Arc<str>,
}

/// What a hook does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    /// Calls the sidecar behind this socket.
    Sidecar(String),
    /// Evaluates an expression.
    Cel,
    /// Something that this launcher does not know, with the reason.
    Refused(String),
}

/// Why plugins cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PluginsError {
    /// The text is not JSON, or members have other types than KubeVirt's.
    #[error("failed to deserialize plugins from options: {0}")]
    Json(#[from] serde_json::Error),
    /// The JSON is too large.
    #[error("plugins of {0} bytes are more than the {MAX_BYTES} that are read")]
    TooLarge(usize),
    /// There are too many hooks.
    #[error("plugins with {0} hooks are more than the {MAX_HOOKS} that are called")]
    TooMany(usize),
    /// There are too many conditions.
    #[error("plugins with conditions of {0} bytes are more than the {MAX_CEL} that are read")]
    TooMuchCel(usize),
    /// A name is longer than a Kubernetes name.
    #[error("a plugin's name has {0} bytes, more than the {MAX_NAME} of a Kubernetes name")]
    Name(usize),
}

impl Plugins {
    /// Reads the `pluginsJson` of a request's options; no bytes are no plugins.
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
            .find(|one| one.metadata.name.len() > MAX_NAME)
        {
            return Err(PluginsError::Name(plugin.metadata.name.len()));
        }
        let count = plugins.iter().map(hooks_of_plugin::count).sum();
        if count > MAX_HOOKS {
            return Err(PluginsError::TooMany(count));
        }
        let cel = plugins.iter().map(plugin_json::Plugin::conditions).sum();
        if cel > MAX_CEL {
            return Err(PluginsError::TooMuchCel(cel));
        }
        // A stable sort, so that plugins with the same name keep their order.
        plugins.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let hooks: Vec<_> = plugins
            .into_iter()
            .flat_map(hooks_of_plugin::hooks)
            .collect();
        // A plugin that is refused as a whole counts as a hook.
        match hooks.len() {
            0..=MAX_HOOKS => Ok(Self { hooks }),
            count => Err(PluginsError::TooMany(count)),
        }
    }

    /// Whether there are no hooks to call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }
}

impl Condition {
    /// A condition with this text; `None` for an empty text.
    fn new(member: String, text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self {
            member,
            text: text.into(),
        })
    }
}
