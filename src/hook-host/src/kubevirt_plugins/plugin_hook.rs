//! One hook of a Plugin as the launcher calls it: its conditions, its action, and its name in runs and errors.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};

use super::domain_or_launcher_hooks::HookList;
use super::plugin_call::{PluginError, PluginSidecar};
use crate::hook::{HookInfo, HookKind};
use crate::hook_body::{BodyError, HookBody, HookCall, HookInput, HookOutput, HookReport};
use crate::{FailurePolicy, HookError, HookPoint, Subscription};

/// The hook point at which plugins are called.
const PLUGIN_HOOK_POINT: HookPoint = HookPoint::OnDefineDomain;

/// One hook of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PluginHook {
    pub(super) plugin: String,
    pub(super) list: HookList,
    /// The index in the list; `None` for a hook that stands for a plugin that is refused as a whole.
    pub(super) index: Option<usize>,
    pub(super) ignore: bool,
    pub(super) timeout: Duration,
    /// The hook is called if all conditions hold. They are evaluated in this order.
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
}

/// The text of a condition, and where it is in the Plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    /// The path of the member that contains the condition.
    pub(super) member: String,
    /// The text, which all hooks of a plugin share.
    pub(super) text: Arc<str>,
}

/// What a call of a plugin hook does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Calls the sidecar behind this socket.
    Sidecar {
        socket_path: String,
        /// The hook points of v1.10 that the hook lists and that are not called yet.
        uncalled_points: Vec<&'static str>,
    },
    /// Evaluates a CEL expression that changes the domain.
    Cel,
    /// The hook is refused for this reason, for instance because of an unknown member.
    Refused(String),
}

impl Condition {
    /// A condition with this text; `None` if the text is empty.
    pub(super) fn new(member: String, text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self {
            member,
            text: text.into(),
        })
    }
}

impl PluginHook {
    pub(super) fn info(&self, sidecar: Option<&PluginSidecar>) -> HookInfo {
        let (file, uncalled_points) = match &self.action {
            Action::Sidecar {
                socket_path,
                uncalled_points,
            } => (socket_path.clone(), uncalled_points.clone()),
            Action::Cel | Action::Refused(_) => (String::new(), Vec::new()),
        };
        let (directory, file) = sidecar.map_or((String::new(), file), PluginSidecar::socket);
        HookInfo {
            hook: self.name(),
            name: self.plugin.clone(),
            version: String::new(),
            directory,
            file,
            kind: HookKind::Sidecar {
                version: VERSION.to_owned(),
            },
            hook_points: vec![Subscription {
                point: PLUGIN_HOOK_POINT,
                priority: 0,
            }],
            uncalled_points: uncalled_points.into_iter().map(str::to_owned).collect(),
            is_final: false,
            compile_time: None,
            ready_after: Duration::ZERO,
        }
    }

    /// The name in runs, errors and records.
    pub(super) fn name(&self) -> String {
        match self.index {
            Some(index) => format!("plugin/{}[{index}]", self.plugin),
            None => format!("plugin/{}", self.plugin),
        }
    }

    pub(super) fn failure_policy(&self) -> FailurePolicy {
        if self.ignore {
            FailurePolicy::Ignore
        } else {
            FailurePolicy::Fail
        }
    }

    pub(super) fn unusable(&self, reason: String) -> HookError {
        HookError::Unusable {
            hook: self.name(),
            point: PLUGIN_HOOK_POINT,
            reason,
        }
    }

    pub(super) fn forbidden(&self, reason: String) -> HookError {
        HookError::Forbidden {
            hook: self.name(),
            point: PLUGIN_HOOK_POINT,
            reason,
        }
    }
}

/// The version of the plugin API, for records and errors.
pub(super) const VERSION: &str = "plugins/v1alpha1";

impl HookBody for PluginSidecar {
    fn call_hook<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        Box::pin(async move { HookReport::result_only(self.output(&call).await) })
    }

    fn has_own_deadline(&self) -> bool {
        true
    }

    fn rewrites_document(&self) -> bool {
        true
    }
}

impl PluginSidecar {
    async fn output(&self, call: &HookCall<'_>) -> Result<HookOutput, BodyError> {
        // Plugins are called at no other hook point.
        let HookInput::Domain(xml) = call.input else {
            return Ok(HookOutput::Nothing);
        };
        let (output, reason) = (call.chain_limits.output, call.invocation.reason);
        match self.change_domain(output, reason, call.vmi, xml).await {
            Ok(answer) => HookOutput::from_domain_bytes(answer),
            Err(PluginError::Deadline(limit)) => Err(BodyError::Deadline(limit)),
            Err(error @ (PluginError::Socket(_) | PluginError::Status { .. })) => {
                Err(BodyError::Sidecar {
                    version: VERSION.to_owned(),
                    message: error.to_string(),
                })
            }
        }
    }
}

/// A plugin hook that cannot be called. A call of it fails with the error.
pub(super) struct UnusableHook {
    pub(super) error: HookError,
    /// The value of the body that this hook replaces.
    pub(super) rewrites_document: bool,
}

impl HookBody for UnusableHook {
    fn call_hook<'a>(&'a self, _: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        let error = BodyError::Unusable(Box::new(self.error.clone()));
        Box::pin(ready(HookReport::result_only(Err(error))))
    }

    fn has_own_deadline(&self) -> bool {
        false
    }

    fn rewrites_document(&self) -> bool {
        self.rewrites_document
    }
}
