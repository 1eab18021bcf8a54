//! Evaluates all conditions of a plugin hook.

use super::cel_condition::ConditionCache;
use super::plugin_hook::{Condition, PluginHook};

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
