//! Resolves the limits of a hook.

use super::{ResolveError, Resolver};
use crate::Limits;
use crate::policy::policy_error::YamlPosition;
use crate::policy::yaml_values::{SizeValue, WithPosition};

impl Resolver<'_> {
    pub(super) fn limits(&self, base: &Limits) -> Result<Limits, ResolveError> {
        let content = self.yaml.map(|yaml| &yaml.content);
        let caps = self.operator.map(|operator| &operator.content.limits);
        let size = |name,
                    set: Option<&WithPosition<SizeValue>>,
                    cap: Option<&WithPosition<SizeValue>>,
                    base| {
            let set = set.map(|set| (set.get().0, set.position()));
            self.limit(
                name,
                set,
                cap.map(|cap| (cap.get().0, cap.position())),
                base,
            )
        };
        let deadline = content.and_then(|c| c.deadline.as_ref());
        let deadline_cap = caps.and_then(|c| c.deadline.as_ref());
        Ok(Limits {
            call_deadline: self.limit(
                "deadline",
                deadline.map(|set| (set.get().0, set.position())),
                deadline_cap.map(|cap| (cap.get().0, cap.position())),
                base.call_deadline,
            )?,
            memory: size(
                "memory",
                content.and_then(|c| c.memory.as_ref()),
                caps.and_then(|c| c.memory.as_ref()),
                base.memory,
            )?,
            output: size(
                "output",
                content.and_then(|c| c.output.as_ref()),
                caps.and_then(|c| c.output.as_ref()),
                base.output,
            )?,
            log: size(
                "log",
                content.and_then(|c| c.log.as_ref()),
                caps.and_then(|c| c.log.as_ref()),
                base.log,
            )?,
            ..base.clone()
        })
    }

    /// The value `set` in `hook.yaml`, else the default `base`. A cap of the operator's policy lowers the default, and
    /// refuses a higher value of `hook.yaml`.
    fn limit<T: Ord + Copy + std::fmt::Debug>(
        &self,
        name: &str,
        set: Option<(T, YamlPosition)>,
        cap: Option<(T, YamlPosition)>,
        base: T,
    ) -> Result<T, ResolveError> {
        let (Some((cap, cap_position)), Some(operator)) = (cap, self.operator) else {
            return Ok(set.map_or(base, |(value, _)| value));
        };
        let Some(((value, position), yaml)) = set.zip(self.yaml) else {
            return Ok(base.min(cap));
        };
        if value <= cap {
            return Ok(value);
        }
        let reason = format!(
            "{name} is {value:?} and may be {cap:?} at most, as {} says",
            operator.at(cap_position)
        );
        Err(yaml.error_at(position, reason).into())
    }
}
