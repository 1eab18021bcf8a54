//! Decides for each plugin hook whether it is called for a VMI, and builds the hook for the chain.

use std::path::Path;
use std::time::Duration;

use super::call::PluginSidecar;
use super::condition::ConditionCache;
use super::hook_body::{UnusableHook, VERSION};
use super::socket::SocketPath;
use super::{Action, Condition, PluginHook, Plugins};
use crate::body::HookBody;
use crate::hook::{Hook, HookInfo, HookKind};
use crate::policy::{HookSettings, OperatorPolicy, resolve_plugin};
use crate::{FailurePolicy, HookError, HookPoint, Limits, Subscription};

/// The hook point at which plugins are called.
const POINT: HookPoint = HookPoint::OnDefineDomain;
/// The remedy for a hook of an unsupported kind.
const WAY_OUT: &str = "make it a sidecar hook, or set failureStrategy: Ignore to start without it";
const UNSUPPORTED: &str = "This launcher evaluates only conditions about the VMI \
    (docs/plugins.md lists them); rewrite it, or set failureStrategy: Ignore to start without the hook";

/// The configuration that all plugins share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanContext<'a> {
    pub(crate) operator: Option<&'a OperatorPolicy>,
    pub(crate) limits: &'a Limits,
    /// Holds one directory per plugin.
    pub(crate) plugins_dir: &'a Path,
}

/// The decision about one plugin hook.
pub(crate) enum PlanEntry {
    /// The hook is called. A hook that cannot be called is included with its reason, because its
    /// failure strategy decides whether the VM starts without it.
    Hook(Box<Hook>),
    /// A condition does not hold.
    Skipped { hook: String, condition: String },
}

/// A hook whose conditions hold, and the sidecar to call, or why it cannot be called.
struct Candidate {
    settings: HookSettings,
    sidecar: Result<PluginSidecar, HookError>,
}

impl Plugins {
    /// All hooks in the order of their calls, for this VMI.
    pub(crate) fn plan(&self, vmi: &str, context: PlanContext<'_>) -> Vec<PlanEntry> {
        let mut conditions = ConditionCache::new(vmi);
        let hooks = self.hooks.iter();
        let entry = |hook: &PluginHook, candidate| match candidate {
            Ok(candidate) => PlanEntry::Hook(Box::new(hook.build(candidate))),
            Err(condition) => PlanEntry::Skipped {
                hook: hook.name(),
                condition,
            },
        };
        hooks
            .map(|hook| entry(hook, hook.candidate(&mut conditions, context)))
            .collect()
    }

    /// Refuses a VMI that cannot start with these plugins, before any sidecar is called.
    pub(crate) fn admit(&self, vmi: &str, context: PlanContext<'_>) -> Result<(), HookError> {
        let mut conditions = ConditionCache::new(vmi);
        for hook in &self.hooks {
            if let Ok(Candidate { settings, sidecar }) = hook.candidate(&mut conditions, context)
                && settings.failure_policy == FailurePolicy::Fail
            {
                sidecar?;
            }
        }
        Ok(())
    }
}

/// The result of all conditions of a hook.
enum ConditionState {
    Call,
    Skip(String),
    /// A condition is not supported by this evaluator: the failure strategy decides.
    Unsupported(String),
    /// A condition has no value. KubeVirt fails the start then, whatever the failure strategy is.
    NoValue(String),
}

impl PluginHook {
    /// The hook, if its conditions hold; else the first condition that does not hold.
    fn candidate<'a>(
        &'a self,
        conditions: &mut ConditionCache<'a>,
        context: PlanContext<'_>,
    ) -> Result<Candidate, String> {
        let (mut settings, forbidden) =
            resolve_plugin(self.failure_policy(), context.limits, context.operator);
        let sidecar = match (self.condition_state(conditions), forbidden) {
            (ConditionState::Skip(condition), _) => return Err(condition),
            (_, Some(reason)) => Err(self.forbidden(reason)),
            (ConditionState::NoValue(reason), None) => {
                settings.failure_policy = FailurePolicy::Fail;
                Err(self.unusable(reason))
            }
            (ConditionState::Unsupported(reason), None) => Err(self.unusable(reason)),
            (ConditionState::Call, None) => self.sidecar(context),
        };
        Ok(Candidate { settings, sidecar })
    }

    fn build(&self, candidate: Candidate) -> Hook {
        let Candidate { settings, sidecar } = candidate;
        let info = self.info(sidecar.as_ref().ok());
        let body: Box<dyn HookBody> = match sidecar {
            Ok(sidecar) => Box::new(sidecar),
            Err(error) => Box::new(UnusableHook(error)),
        };
        Hook {
            info,
            settings,
            body,
        }
    }

    fn condition_state<'a>(&'a self, conditions: &mut ConditionCache<'a>) -> ConditionState {
        for Condition { member, text } in &self.conditions {
            let origin = format!("{member} of plugin {}", self.plugin);
            match conditions.ask(text) {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return ConditionState::Skip(member.clone()),
                Ok(Err(error)) => return ConditionState::NoValue(format!("{origin}: {error}")),
                Err(error) => {
                    return ConditionState::Unsupported(format!(
                        "{origin}: {error}. {UNSUPPORTED}"
                    ));
                }
            }
        }
        ConditionState::Call
    }

    fn sidecar(&self, context: PlanContext<'_>) -> Result<PluginSidecar, HookError> {
        let member = |name: &str| format!("spec.domainHooks[{}].{name}", self.index);
        let socket_path = match &self.action {
            Action::Sidecar(path) => path,
            Action::Cel => {
                let (member, plugin) = (member("cel"), &self.plugin);
                return Err(self.unusable(format!(
                    "{member} of plugin {plugin} is a CEL mutation, which this launcher does not \
                     evaluate; {WAY_OUT}"
                )));
            }
        };
        if let Some(reason) = context.operator.and_then(OperatorPolicy::forbids_sidecars) {
            return Err(self.forbidden(reason));
        }
        let socket_path = SocketPath::of(context.plugins_dir, &self.plugin, socket_path);
        let socket_path = socket_path
            .map_err(|error| self.unusable(format!("{}: {error}", member("sidecar.socketPath"))))?;
        Ok(PluginSidecar {
            plugin: self.plugin.clone(),
            socket_path,
            patience: context.limits.plugin_ready,
            timeout: self.timeout,
        })
    }

    fn info(&self, sidecar: Option<&PluginSidecar>) -> HookInfo {
        let (directory, file) = match (sidecar, &self.action) {
            (Some(sidecar), _) => sidecar.socket(),
            (_, Action::Sidecar(path)) => (String::new(), path.clone()),
            (_, Action::Cel) => (String::new(), String::new()),
        };
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
                point: POINT,
                priority: 0,
            }],
            ready_after: Duration::ZERO,
        }
    }

    /// The name in runs, errors and records.
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

    fn unusable(&self, reason: String) -> HookError {
        HookError::Unusable {
            hook: self.name(),
            point: POINT,
            reason,
        }
    }

    fn forbidden(&self, reason: String) -> HookError {
        HookError::Forbidden {
            hook: self.name(),
            point: POINT,
            reason,
        }
    }
}
