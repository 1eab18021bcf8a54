//! From a plugin's hook to one that the chain calls, or to the reason why it cannot be.

use std::path::Path;
use std::time::Duration;

use super::condition::About;
use super::socket::Place;
use super::{Action, Condition, PluginHook, PluginSidecar, Plugins};
use crate::chain::{Body, Hook};
use crate::policy::{OperatorPolicy, settle_plugin};
use crate::wasm::Subscription;
use crate::{FailurePolicy, HookError, HookInfo, HookKind, HookPoint, Limits};

/// Where plugins are called.
const POINT: HookPoint = HookPoint::OnDefineDomain;
/// The version that they are spoken to in.
const VERSION: &str = "plugins/v1alpha1";
/// What to do about a hook that is refused for what it is.
const WAY_OUT: &str = "make it a sidecar hook, or set failureStrategy: Ignore to start without it";
const UNSUPPORTED: &str = "This launcher evaluates only conditions about the VMI \
    (docs/plugins.md lists them); rewrite it, or set failureStrategy: Ignore to start without the hook";

/// What is the same for all plugins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) operator: Option<&'a OperatorPolicy>,
    pub(crate) limits: &'a Limits,
    /// Holds one directory per plugin.
    pub(crate) plugins_dir: &'a Path,
}

/// What becomes of a plugin's hook.
pub(crate) enum Planned {
    /// It is called. One that cannot be called is a hook too, with the reason: its failure strategy
    /// decides what becomes of that.
    Hook(Box<Hook>),
    /// A condition does not hold.
    Skipped { hook: String, condition: String },
}

impl Plugins {
    /// All hooks in the order of their calls, for this VMI.
    pub(crate) fn plan(&self, vmi: &str, terms: Terms<'_>) -> Vec<Planned> {
        let mut about = About::new(vmi);
        let hooks = self.hooks.iter();
        hooks.map(|hook| hook.plan(&mut about, terms)).collect()
    }

    /// Why this VMI cannot start with these plugins, whatever their sidecars would say.
    pub(crate) fn admit(&self, vmi: &str, terms: Terms<'_>) -> Result<(), HookError> {
        for planned in self.plan(vmi, terms) {
            if let Planned::Hook(hook) = planned
                && hook.settings.failure_policy == FailurePolicy::Fail
                && let Body::Unusable(error) = hook.body
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// How a hook's conditions stand.
enum Verdict {
    Call,
    Skip(String),
    /// They are more than is evaluated here: the failure strategy decides.
    Unsupported(String),
    /// They have no value, which KubeVirt forgives nobody.
    NoValue(String),
}

impl PluginHook {
    fn plan<'a>(&'a self, about: &mut About<'a>, terms: Terms<'_>) -> Planned {
        let (mut settings, forbidden) =
            settle_plugin(self.failure_policy(), terms.limits, terms.operator);
        let body = match (self.verdict(about), forbidden) {
            (Verdict::Skip(condition), _) => {
                return Planned::Skipped {
                    hook: self.name(),
                    condition,
                };
            }
            (_, Some(reason)) => self.forbidden(reason),
            (Verdict::NoValue(reason), None) => {
                settings.failure_policy = FailurePolicy::Fail;
                self.unusable(reason)
            }
            (Verdict::Unsupported(reason), None) => self.unusable(reason),
            (Verdict::Call, None) => self.body(terms),
        };
        Planned::Hook(Box::new(Hook {
            info: self.info(&body),
            settings,
            body,
        }))
    }

    fn verdict<'a>(&'a self, about: &mut About<'a>) -> Verdict {
        for Condition { member, text } in &self.conditions {
            let place = format!("{member} of plugin {}", self.plugin);
            match about.ask(text) {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Verdict::Skip(member.clone()),
                Ok(Err(error)) => return Verdict::NoValue(format!("{place}: {error}")),
                Err(error) => {
                    return Verdict::Unsupported(format!("{place}: {error}. {UNSUPPORTED}"));
                }
            }
        }
        Verdict::Call
    }

    fn body(&self, terms: Terms<'_>) -> Body {
        let member = |name: &str| format!("spec.domainHooks[{}].{name}", self.index);
        let socket_path = match &self.action {
            Action::Sidecar(path) => path,
            Action::Cel => {
                let (member, plugin) = (member("cel"), &self.plugin);
                return self.unusable(format!(
                    "{member} of plugin {plugin} is a CEL mutation, which this launcher does not \
                     evaluate; {WAY_OUT}"
                ));
            }
        };
        if let Some(reason) = terms.operator.and_then(OperatorPolicy::forbids_sidecars) {
            return self.forbidden(reason);
        }
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

    fn info(&self, body: &Body) -> HookInfo {
        let (directory, file) = match (body, &self.action) {
            (Body::Plugin(sidecar), _) => sidecar.socket(),
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

    fn unusable(&self, reason: String) -> Body {
        Body::Unusable(HookError::Unusable {
            hook: self.name(),
            point: POINT,
            reason,
        })
    }

    fn forbidden(&self, reason: String) -> Body {
        Body::Unusable(HookError::Forbidden {
            hook: self.name(),
            point: POINT,
            reason,
        })
    }
}
