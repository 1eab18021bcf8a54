//! Decides for each plugin hook whether it is called for a VMI, and builds the hook for the chain.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::condition::ConditionCache;
use super::hook_body::{UnusableHook, VERSION};
use super::in_process_module::{LoadModule, ModuleFile, PluginModule};
use super::plugin_call::PluginSidecar;
use super::plugin_socket::PluginSocket;
use super::{Action, Condition, PluginHook, Plugins};
use crate::hook::{Hook, HookInfo, HookKind};
use crate::policy::{EffectiveSettings, OperatorPolicy, resolve_plugin};
use crate::{FailurePolicy, HookError, HookPoint, Limits, Subscription};

/// The hook point at which plugins are called.
const POINT: HookPoint = HookPoint::OnDefineDomain;
/// The remedy for a hook of an unsupported kind.
const WAY_OUT: &str = "make it a sidecar hook, or set failureStrategy: Ignore to start without it";
const UNSUPPORTED: &str = "This launcher evaluates only conditions about the VMI \
    (docs/kubevirt-plugins.md lists them); rewrite it, or set failureStrategy: Ignore to start without the hook";

/// The configuration that all plugins share.
#[derive(Clone, Copy)]
pub(crate) struct PlanContext<'a> {
    pub(crate) operator: Option<&'a OperatorPolicy>,
    pub(crate) limits: &'a Limits,
    /// Holds one directory per plugin.
    pub(crate) plugins_dir: &'a Path,
    /// Loads modules of plugins; without it they are called through their sockets only.
    pub(crate) modules: Option<&'a dyn LoadModule>,
}

/// The decision about one plugin hook.
pub(crate) enum PlanEntry {
    /// The hook is called. A hook that cannot be called is included with its reason, because its
    /// failure strategy decides whether the VM starts without it.
    Hook(Box<Hook>),
    /// A condition does not hold.
    Skipped { hook: String, condition: String },
}

/// A hook whose conditions hold, and what to call, or why it cannot be called.
struct Candidate {
    settings: EffectiveSettings,
    callee: Result<Callee, HookError>,
}

/// What a plugin's hook calls.
enum Callee {
    Sidecar(PluginSidecar),
    Module(ModuleFile),
}

impl Plugins {
    /// All hooks in the order of their calls, for this VMI. Modules are loaded.
    pub(crate) async fn plan(&self, vmi: &str, context: PlanContext<'_>) -> Vec<PlanEntry> {
        let mut conditions = ConditionCache::new(vmi);
        let mut entries = Vec::new();
        // The first may be compiled as long as any module; together they get little more.
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

    /// Refuses a VMI that cannot start with these plugins, before any sidecar is called.
    pub(crate) fn admit(&self, vmi: &str, context: PlanContext<'_>) -> Result<(), HookError> {
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
        let callee = match (self.condition_state(conditions), forbidden) {
            (ConditionState::Skip(condition), _) => return Err(condition),
            (_, Some(reason)) => Err(self.forbidden(reason)),
            (ConditionState::NoValue(reason), None) => {
                settings.failure_policy = FailurePolicy::Fail;
                Err(self.unusable(reason))
            }
            (ConditionState::Unsupported(reason), None) => Err(self.unusable(reason)),
            (ConditionState::Call, None) => self.callee(context),
        };
        Ok(Candidate { settings, callee })
    }

    async fn build(
        &self,
        candidate: Candidate,
        context: PlanContext<'_>,
        loaded_by: Instant,
    ) -> Hook {
        let Candidate { settings, callee } = candidate;
        let (error, rewrites_document) = match callee {
            Ok(Callee::Sidecar(sidecar)) => {
                return Hook {
                    info: self.info(Some(&sidecar)),
                    settings,
                    body: Box::new(sidecar),
                };
            }
            Ok(Callee::Module(file)) => {
                let loading = self.module(&file, settings.failure_policy, context);
                let loaded = timeout_at(loaded_by, loading).await;
                let late = || "the time for loading all modules of plugins is over".to_owned();
                match loaded.unwrap_or_else(|_| Err(late())) {
                    Ok(hook) => return hook,
                    Err(reason) => {
                        let (plugin, file) = (&file.plugin, &file.file);
                        let reason = format!("module {plugin}/{file} of the plugin: {reason}");
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

    /// The plugin's module as a hook. Timeout and failure strategy are the plugin's.
    async fn module(
        &self,
        file: &ModuleFile,
        failure_policy: FailurePolicy,
        context: PlanContext<'_>,
    ) -> Result<Hook, String> {
        let loader = context.modules.ok_or("modules cannot be loaded here")?;
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
        let points = settings.hook_points.iter().map(|at| at.point).collect();
        settings.failure_policy = failure_policy;
        let module = PluginModule::new(body, points)?;
        for point in module.uncalled_points() {
            let (hook, hook_point) = (self.name(), point.name());
            tracing::warn!(
                hook,
                hook_point,
                "a Plugin does not call this hook point; a standing hook has all of them"
            );
        }
        Ok(Hook {
            info: HookInfo {
                version: info.version,
                directory: context.plugins_dir.join(&file.plugin).display().to_string(),
                file: file.file.clone(),
                kind: info.kind,
                ..self.info(None)
            },
            settings,
            body: Box::new(module),
        })
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

    fn callee(&self, context: PlanContext<'_>) -> Result<Callee, HookError> {
        let member = |name: &str| {
            let index = self.index.unwrap_or_default();
            format!("spec.{}[{index}].{name}", self.list.name())
        };
        let socket_path = match &self.action {
            Action::Sidecar(path) => path,
            Action::Refused(reason) => return Err(self.unusable(reason.clone())),
            Action::Cel => {
                let (member, plugin) = (member("cel"), &self.plugin);
                return Err(self.unusable(format!(
                    "{member} of plugin {plugin} is a CEL mutation, which this launcher does not \
                     evaluate; {WAY_OUT}"
                )));
            }
        };
        let socket_path = PluginSocket::of(context.plugins_dir, &self.plugin, socket_path);
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
            patience: context.limits.plugin_ready,
            timeout: self.timeout,
        }))
    }

    fn info(&self, sidecar: Option<&PluginSidecar>) -> HookInfo {
        let (directory, file) = match (sidecar, &self.action) {
            (Some(sidecar), _) => sidecar.socket(),
            (_, Action::Sidecar(path)) => (String::new(), path.clone()),
            (_, Action::Cel | Action::Refused(_)) => (String::new(), String::new()),
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
            compile_time: None,
            ready_after: Duration::ZERO,
        }
    }

    /// The name in runs, errors and records.
    fn name(&self) -> String {
        match self.index {
            Some(index) => format!("plugin/{}[{index}]", self.plugin),
            None => format!("plugin/{}", self.plugin),
        }
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
