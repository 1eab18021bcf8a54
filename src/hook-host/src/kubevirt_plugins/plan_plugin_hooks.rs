//! Plans the calls of plugin hooks for a VMI: evaluates their conditions, and builds the hooks for the chain.

use std::path::Path;

use tokio::time::{Instant, timeout_at};

use super::cel_condition::ConditionCache;
use super::in_process_module::{LoadModule, ModuleFile, PluginLoadError, PluginModule};
use super::plugin_call::PluginSidecar;
use super::plugin_hook::{Action, Condition, PluginHook, UnusableHook};
use super::plugin_socket::PluginSocket;
use super::{Plugins, in_process_module};
use crate::hook::{Hook, HookInfo};
use crate::policy::{EffectiveSettings, OperatorPolicy, resolve_plugin};
use crate::{FailurePolicy, HookError, Limits};

/// The remedy in the error about a CEL mutation.
const CEL_MUTATION_REMEDY: &str =
    "make it a sidecar hook, or set failureStrategy: Ignore to start without it";

/// The configuration that all plugin hooks share.
#[derive(Clone, Copy)]
pub(crate) struct PlanContext<'a> {
    pub(crate) operator: Option<&'a OperatorPolicy>,
    pub(crate) limits: &'a Limits,
    /// The directory with one sub-directory per plugin.
    pub(crate) plugins_dir: &'a Path,
    /// Loads modules of plugins; `None` if plugins are called through their sockets only.
    pub(crate) modules: Option<&'a dyn LoadModule>,
}

/// The decision about one plugin hook.
pub(crate) enum PlanEntry {
    /// The hook is called. A hook that cannot be called is included with its error, because its
    /// failure strategy decides whether the VM starts without it.
    Hook(Box<Hook>),
    /// The hook is not called, because the condition does not hold.
    Skipped { hook: String, condition: String },
}

/// A hook that is not skipped: its settings, and what to call, or why it cannot be called.
struct Candidate {
    settings: EffectiveSettings,
    callee: Result<Callee, HookError>,
}

/// What a plugin hook calls.
enum Callee {
    Sidecar(PluginSidecar),
    Module(ModuleFile),
}

impl Plugins {
    /// Decides for each hook in order whether it is called for this VMI, and loads the modules.
    pub(crate) async fn plan(&self, vmi: &str, context: PlanContext<'_>) -> Vec<PlanEntry> {
        let mut conditions = ConditionCache::new(vmi);
        let mut entries = Vec::new();
        // One module may need as long to compile as any module; all modules together get little more.
        let loaded_by =
            Instant::now() + context.limits.compile_deadline + context.limits.chain_deadline;
        for hook in &self.hooks {
            entries.push(match hook.candidate(&mut conditions, context) {
                Ok(candidate) => {
                    let built = hook.build(candidate, context, loaded_by).await;
                    PlanEntry::Hook(Box::new(built))
                }
                Err(condition) => PlanEntry::Skipped {
                    hook: hook.name(),
                    condition,
                },
            });
        }
        entries
    }

    /// Checks whether the VMI can start with these plugins, before any sidecar is called.
    pub(crate) fn check(&self, vmi: &str, context: PlanContext<'_>) -> Result<(), HookError> {
        let mut conditions = ConditionCache::new(vmi);
        for hook in &self.hooks {
            if let Ok(Candidate { settings, callee }) = hook.candidate(&mut conditions, context)
                && settings.failure_policy == FailurePolicy::Fail
            {
                callee?;
            }
        }
        Ok(())
    }
}

impl PluginHook {
    /// The candidate for a call. The error is the first condition that does not hold.
    fn candidate<'a>(
        &'a self,
        conditions: &mut ConditionCache<'a>,
        context: PlanContext<'_>,
    ) -> Result<Candidate, String> {
        let (mut settings, forbidden) =
            resolve_plugin(self.failure_policy(), context.limits, context.operator);
        let callee = match (self.condition_state(conditions), forbidden) {
            (ConditionState::NotHolding(condition), _) => return Err(condition),
            (_, Some(reason)) => Err(self.forbidden(reason)),
            (ConditionState::NoValue(reason), None) => {
                settings.failure_policy = FailurePolicy::Fail;
                Err(self.unusable(reason))
            }
            (ConditionState::Unsupported(reason), None) => {
                let rule = self.final_rule_of_unloaded_module(context);
                Err(self.unusable(with_failure_policy_of_final_hook(
                    reason,
                    rule,
                    &mut settings,
                )))
            }
            (ConditionState::AllHold, None) => match &self.action {
                Action::Refused(reason) => {
                    let rule = self.final_rule_of_unloaded_module(context);
                    let reason = reason.clone();
                    Err(self.unusable(with_failure_policy_of_final_hook(
                        reason,
                        rule,
                        &mut settings,
                    )))
                }
                Action::Sidecar { .. } | Action::Cel => self.callee(context),
            },
        };
        Ok(Candidate { settings, callee })
    }

    async fn build(
        &self,
        candidate: Candidate,
        context: PlanContext<'_>,
        loaded_by: Instant,
    ) -> Hook {
        let Candidate {
            mut settings,
            callee,
        } = candidate;
        let (error, rewrites_document) = match callee {
            Ok(Callee::Sidecar(sidecar)) => {
                return Hook {
                    info: self.info(Some(&sidecar)),
                    settings,
                    body: Box::new(sidecar),
                };
            }
            Ok(Callee::Module(file)) => {
                let loading = self.load_module(&file, settings.failure_policy, context);
                let loaded = timeout_at(loaded_by, loading).await;
                let timed_out = || PluginLoadError {
                    reason: "the time for loading all modules of plugins is over".to_owned(),
                    final_rule: self.final_rule_of_unloaded_module(context),
                };
                match loaded.unwrap_or_else(|_| Err(timed_out())) {
                    Ok(hook) => return hook,
                    Err(PluginLoadError { reason, final_rule }) => {
                        let (plugin, file) = (&file.plugin, &file.file);
                        let reason = format!("module {plugin}/{file} of the plugin: {reason}");
                        let reason =
                            with_failure_policy_of_final_hook(reason, final_rule, &mut settings);
                        (self.unusable(reason), false)
                    }
                }
            }
            Err(error) => (error, true),
        };
        Hook {
            info: self.info(None),
            settings,
            body: Box::new(UnusableHook {
                error,
                rewrites_document,
            }),
        }
    }

    /// Loads the plugin's module as a hook. Its timeout and failure policy are those of the plugin hook.
    async fn load_module(
        &self,
        file: &ModuleFile,
        failure_policy: FailurePolicy,
        context: PlanContext<'_>,
    ) -> Result<Hook, PluginLoadError> {
        let loader = context.modules.ok_or_else(|| PluginLoadError {
            reason: "modules cannot be loaded here".to_owned(),
            final_rule: None,
        })?;
        let limits = Limits {
            call_deadline: self.timeout,
            ..context.limits.clone()
        };
        let hook = loader.load_module(file, limits).await?;
        let Hook {
            info,
            mut settings,
            body,
        } = hook;
        let points = settings
            .hook_points
            .iter()
            .map(|subscription| subscription.point)
            .collect();
        // The failure of a final hook is never ignored.
        if settings.final_rule.is_none() {
            settings.failure_policy = failure_policy;
        }
        let module = PluginModule::new(body, points).map_err(|reason| PluginLoadError {
            reason,
            final_rule: settings.final_rule.clone(),
        })?;
        let mut as_listed = self.info(None);
        let uncalled = module
            .uncalled_points()
            .map(|point| point.name().to_owned());
        as_listed.uncalled_points.extend(uncalled);
        Ok(Hook {
            info: HookInfo {
                version: info.version,
                directory: context.plugins_dir.join(&file.plugin).display().to_string(),
                file: file.file.clone(),
                kind: info.kind,
                is_final: info.is_final,
                ..as_listed
            },
            settings,
            body: Box::new(module),
        })
    }

    /// The rule of the operator's policy that may make the plugin's module a final hook, if the plugin has a module.
    fn final_rule_of_unloaded_module(&self, context: PlanContext<'_>) -> Option<String> {
        let loader = context.modules?;
        let has_module = match &self.action {
            Action::Sidecar { .. } => matches!(self.callee(context), Ok(Callee::Module(_))),
            // Which file such a hook calls is not known.
            Action::Refused(_) => {
                in_process_module::has_any_module(context.plugins_dir, &self.plugin)
            }
            Action::Cel => false,
        };
        has_module.then(|| loader.final_rule_of_unknown_module())?
    }

    /// What the hook calls: the module beside the socket if there is one, or the sidecar. The error is why it cannot be
    /// called.
    fn callee(&self, context: PlanContext<'_>) -> Result<Callee, HookError> {
        let member = |name: &str| {
            let index = self.index.unwrap_or_default();
            format!("spec.{}[{index}].{name}", self.list.name())
        };
        let socket_path = match &self.action {
            Action::Sidecar { socket_path, .. } => socket_path,
            Action::Refused(reason) => return Err(self.unusable(reason.clone())),
            Action::Cel => {
                let (member, plugin) = (member("cel"), &self.plugin);
                return Err(self.unusable(format!(
                    "{member} of plugin {plugin} is a CEL mutation, which this launcher does not \
                     evaluate; {CEL_MUTATION_REMEDY}"
                )));
            }
        };
        let socket_path = PluginSocket::new(context.plugins_dir, &self.plugin, socket_path);
        let socket_path = socket_path
            .map_err(|error| self.unusable(format!("{}: {error}", member("sidecar.socketPath"))))?;
        if context.modules.is_some()
            && let Some(module) = socket_path.module()
        {
            return Ok(Callee::Module(module));
        }
        if let Some(reason) = context.operator.and_then(OperatorPolicy::forbids_sidecars) {
            return Err(self.forbidden(reason));
        }
        Ok(Callee::Sidecar(PluginSidecar {
            plugin: self.plugin.clone(),
            list: self.list,
            socket_path,
            socket_timeout: context.limits.plugin_socket_timeout,
            timeout: self.timeout,
        }))
    }
}

/// The reason why a module cannot be used. If a rule makes the module a final hook, its failure is not ignored: what the
/// operator enforces would then be missing.
fn with_failure_policy_of_final_hook(
    reason: String,
    final_rule: Option<String>,
    settings: &mut EffectiveSettings,
) -> String {
    match final_rule {
        Some(rule) if settings.failure_policy != FailurePolicy::Fail => {
            settings.failure_policy = FailurePolicy::Fail;
            format!("{reason}; {rule} is about final hooks, whose failure is never ignored")
        }
        _ => reason,
    }
}

/// The remedy in the error about an unsupported condition.
const CONDITION_REMEDY: &str = "This launcher evaluates only conditions about the VMI \
    (docs/kubevirt-plugins.md lists them); rewrite it, or set failureStrategy: Ignore to start without the hook";

/// The result of evaluating all conditions of a hook.
pub(super) enum ConditionState {
    /// All conditions hold.
    AllHold,
    /// This condition does not hold.
    NotHolding(String),
    /// A condition is not supported by this evaluator: the failure strategy decides whether the VM starts.
    Unsupported(String),
    /// A condition has no value. As in KubeVirt, the start fails then, regardless of the failure strategy.
    NoValue(String),
}

impl PluginHook {
    /// Evaluates the conditions in order, up to the first that does not hold.
    pub(super) fn condition_state<'a>(
        &'a self,
        conditions: &mut ConditionCache<'a>,
    ) -> ConditionState {
        for Condition { member, text } in &self.conditions {
            let origin = format!("{member} of plugin {}", self.plugin);
            match conditions.evaluate(text) {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return ConditionState::NotHolding(member.clone()),
                Ok(Err(error)) => return ConditionState::NoValue(format!("{origin}: {error}")),
                Err(error) => {
                    return ConditionState::Unsupported(format!(
                        "{origin}: {error}. {CONDITION_REMEDY}"
                    ));
                }
            }
        }
        ConditionState::AllHold
    }
}
