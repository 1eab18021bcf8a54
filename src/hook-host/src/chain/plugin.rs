//! A plugin's sidecar as one of the chain's hooks.

use super::Hook;
use super::attempt::{Input, Judged, Output, Round};
use crate::plugins::{PluginError, PluginSidecar};
use crate::record::Given;
use crate::{HookError, HookKind};

impl Round<'_> {
    pub(super) async fn plugin(
        &self,
        hook: &Hook,
        plugin: &PluginSidecar,
        input: Input<'_>,
    ) -> (Judged, Option<Given>) {
        // Plugins know no other hook point.
        let Input::Domain { domain, xml } = input else {
            return (Ok((Output::Nothing, Vec::new())), None);
        };
        let output = self.limits.output;
        let reason = self.invocation.reason;
        match plugin.mutate_domain(output, reason, self.vmi, xml).await {
            Ok(answer) => self.sidecars_domain(hook, domain, answer),
            Err(error) => (Err(self.plugin_error(hook, &error)), None),
        }
    }

    fn plugin_error(&self, hook: &Hook, error: &PluginError) -> HookError {
        let (name, point) = (hook.info.hook.clone(), self.point);
        match error {
            PluginError::Deadline(limit) => HookError::Deadline {
                hook: name,
                point,
                limit: *limit,
            },
            PluginError::Socket(_) | PluginError::Status { .. } => HookError::Sidecar {
                hook: name,
                point,
                version: match &hook.info.kind {
                    HookKind::Sidecar { version } => version.clone(),
                    HookKind::Wasm { .. } => String::new(),
                },
                message: error.to_string(),
            },
        }
    }
}
