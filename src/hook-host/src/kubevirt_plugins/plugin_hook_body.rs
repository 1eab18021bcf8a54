//! `HookBody` of plugin hooks: of sidecars, and of hooks that cannot be called.

use futures_util::future::{BoxFuture, ready};

use super::plugin_call::{PluginError, PluginSidecar};
use crate::HookError;
use crate::hook_body::{BodyError, HookBody, HookCall, HookInput, HookOutput, HookReport};

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
