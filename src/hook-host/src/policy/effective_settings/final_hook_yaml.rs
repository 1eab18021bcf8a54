//! What the `hook.yaml` of a final hook may say. It belongs to the VM's owner, who must not weaken a hook with which the
//! operator enforces something.

use super::{ResolveError, Resolver};
use crate::policy::hook_yaml::{AllowSection, Content, HookYaml};
use crate::policy::policy_file::YamlPosition;
use crate::policy::yaml_values::WithPosition;
use crate::{FailurePolicy, Limits};

impl Resolver<'_> {
    /// Refuses the keys with which the hook would be called later, less often, with less, or in vain. A digest, required
    /// versions and limits above the default only make it run, or not start the VM.
    pub(super) fn refuse_weakening_keys(&self, base: &Limits) -> Result<(), ResolveError> {
        let (Some(rule), Some(yaml)) = (&self.final_rule, self.yaml) else {
            return Ok(());
        };
        let refused = match weakening_key(yaml) {
            Some((key, position)) => Some((
                position,
                format!("{key} is not accepted beside a final hook"),
            )),
            None => self.lowered_limit(yaml, base)?.map(|(key, position)| {
                let reason = format!("{key} of a final hook may be raised, not lowered");
                (position, reason)
            }),
        };
        match refused {
            None => Ok(()),
            Some((position, reason)) => {
                let reason = format!(
                    "{reason}: {rule} makes it one, and only the operator says how it runs"
                );
                Err(yaml.error_at(position, reason).into())
            }
        }
    }

    /// The first limit that is lower than without the `hook.yaml`.
    fn lowered_limit(
        &self,
        yaml: &HookYaml,
        base: &Limits,
    ) -> Result<Option<(&'static str, YamlPosition)>, ResolveError> {
        let without_yaml = Self {
            yaml: None,
            ..self.clone()
        };
        let default = without_yaml.limits(base)?;
        let content = &yaml.content;
        let deadline = content.deadline.as_ref();
        let deadline = deadline.filter(|set| set.get().0 < default.call_deadline);
        if let Some(deadline) = deadline {
            return Ok(Some(("deadline", deadline.position())));
        }
        let sizes = [
            ("memory", &content.memory, default.memory),
            ("output", &content.output, default.output),
            ("log", &content.log, default.log),
        ];
        let lowered = sizes.into_iter().find_map(|(key, set, default)| {
            let set = set.as_ref().filter(|set| set.get().0 < default)?;
            Some((key, set.position()))
        });
        Ok(lowered)
    }
}

/// The first key that a final hook's `hook.yaml` must not have. Each key is named here, so that a new one needs a decision.
fn weakening_key(yaml: &HookYaml) -> Option<(&'static str, YamlPosition)> {
    let Content {
        sha256: _,
        priority,
        hook_points,
        failure_policy,
        // Limits are compared with the default; the operator's policy lists the keys of `config`.
        deadline: _,
        memory: _,
        output: _,
        log: _,
        config: _,
        allow: AllowSection { paths, dirs, pod },
        requires: _,
    } = &yaml.content;
    let loose = failure_policy
        .as_ref()
        .filter(|policy| *policy.get() != FailurePolicy::Fail);
    let keys = [
        ("priority", position(priority)),
        ("hookPoints", position(hook_points)),
        ("failurePolicy", loose.map(WithPosition::position)),
        ("allow.paths", position(paths)),
        ("allow.dirs", position(dirs)),
        ("allow.pod", position(pod)),
    ];
    let present = |(key, position): (&'static str, Option<YamlPosition>)| Some((key, position?));
    keys.into_iter().find_map(present)
}

fn position<T>(value: &Option<WithPosition<T>>) -> Option<YamlPosition> {
    value.as_ref().map(WithPosition::position)
}
