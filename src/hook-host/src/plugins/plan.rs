//! From a plugin's hook to one that the chain calls, or to the reason why it cannot be.

use std::path::Path;

use super::socket::Place;
use super::{Action, PluginHook, PluginSidecar, Plugins};
use crate::chain::{Body, Hook};
use crate::policy::{OperatorPolicy, settle_plugin};
use crate::wasm::Subscription;
use crate::{FailurePolicy, HookError, HookInfo, HookKind, HookPoint, Limits};

/// Where plugins are called.
const POINT: HookPoint = HookPoint::OnDefineDomain;
/// The version that they are spoken to in.
const VERSION: &str = "plugins/v1alpha1";

/// What is the same for all plugins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) operator: Option<&'a OperatorPolicy>,
    pub(crate) limits: &'a Limits,
    /// Holds one directory per plugin.
    pub(crate) plugins_dir: &'a Path,
}

impl Plugins {
    /// The hooks in the order of their calls. One that cannot be called is there too, with the
    /// reason: its failure strategy decides what becomes of that.
    pub(crate) fn plan(&self, terms: Terms<'_>) -> Vec<Hook> {
        self.hooks.iter().map(|hook| planned(hook, terms)).collect()
    }

    /// Why a virtual machine cannot start with these plugins, whatever their sidecars would say.
    pub(crate) fn admit(&self, terms: Terms<'_>) -> Result<(), HookError> {
        let planned = self.plan(terms).into_iter();
        let mut refused =
            planned.filter_map(|hook| match (hook.settings.failure_policy, hook.body) {
                (FailurePolicy::Fail, Body::Unusable(error)) => Some(error),
                _ => None,
            });
        refused.next().map_or(Ok(()), Err)
    }
}

fn planned(hook: &PluginHook, terms: Terms<'_>) -> Hook {
    let (directory, file) = match &hook.action {
        Action::Sidecar(path) => match Place::of(terms.plugins_dir, &hook.plugin, path) {
            Ok(place) => (
                place.directory().display().to_string(),
                place.file().to_owned(),
            ),
            Err(_) => (String::new(), path.clone()),
        },
        Action::Cel => (String::new(), String::new()),
    };
    let wanted = hook.failure_policy();
    let (settings, forbidden) = settle_plugin(wanted, terms.limits, terms.operator);
    let body = match forbidden {
        Some(reason) => Body::Unusable(hook.forbidden(reason)),
        None => hook.body(terms),
    };
    let info = HookInfo {
        hook: hook.name(),
        name: hook.plugin.clone(),
        version: String::new(),
        directory,
        file,
        kind: HookKind::Sidecar {
            version: VERSION.to_owned(),
        },
        hook_points: vec![Subscription {
            point: POINT,
            priority: 0,
        }],
        ready_after: std::time::Duration::ZERO,
    };
    Hook {
        info,
        settings,
        body,
    }
}

impl PluginHook {
    /// What runs, errors and records call it.
    fn name(&self) -> String {
        format!("plugin/{}[{}]", self.plugin, self.index)
    }

    fn failure_policy(&self) -> FailurePolicy {
        if self.ignore {
            FailurePolicy::Ignore
        } else {
            FailurePolicy::Fail
        }
    }

    fn body(&self, terms: Terms<'_>) -> Body {
        let member = |name: &str| format!("spec.domainHooks[{}].{name}", self.index);
        let socket_path = match (&self.action, self.conditions.first()) {
            (Action::Cel, _) => return self.no_cel(&member("cel")),
            (Action::Sidecar(_), Some(condition)) => return self.no_cel(condition),
            (Action::Sidecar(path), None) => path,
        };
        match Place::of(terms.plugins_dir, &self.plugin, socket_path) {
            Ok(place) => Body::Plugin(PluginSidecar {
                plugin: self.plugin.clone(),
                place,
                patience: terms.limits.plugin_ready,
                timeout: self.timeout,
            }),
            Err(error) => self.unusable(format!("{}: {error}", member("sidecar.socketPath"))),
        }
    }

    fn no_cel(&self, member: &str) -> Body {
        self.unusable(format!(
            "{member} of plugin {} is CEL, which this launcher does not evaluate; use a sidecar \
             hook without a condition, or failureStrategy: Ignore to start without it",
            self.plugin
        ))
    }

    fn unusable(&self, reason: String) -> Body {
        Body::Unusable(HookError::Unusable {
            hook: self.name(),
            point: POINT,
            reason,
        })
    }

    fn forbidden(&self, reason: String) -> HookError {
        HookError::Forbidden {
            hook: self.name(),
            point: POINT,
            reason,
        }
    }
}
