//! Resolves the limits of a hook.

use super::{ResolveError, Resolver};
use crate::Limits;
use crate::policy::strict_yaml::YamlPosition;
use crate::policy::yaml_values::{Located, SizeValue};

impl Resolver<'_> {
    pub(super) fn limits(&self, base: &Limits) -> Result<Limits, ResolveError> {
        let content = self.yaml.map(|yaml| &yaml.content);
        let caps = self.operator.map(|operator| &operator.content.limits);
        let number =
            |name, own: Option<&Located<SizeValue>>, cap: Option<&Located<SizeValue>>, base| {
                let own = own.map(|own| (own.get().0, own.position()));
                self.limit(
                    name,
                    own,
                    cap.map(|cap| (cap.get().0, cap.position())),
                    base,
                )
            };
        let deadline = content.and_then(|c| c.deadline.as_ref());
        let deadline_cap = caps.and_then(|c| c.deadline.as_ref());
        Ok(Limits {
            call_deadline: self.limit(
                "deadline",
                deadline.map(|own| (own.get().0, own.position())),
                deadline_cap.map(|cap| (cap.get().0, cap.position())),
                base.call_deadline,
            )?,
            memory: number(
                "memory",
                content.and_then(|c| c.memory.as_ref()),
                caps.and_then(|c| c.memory.as_ref()),
                base.memory,
            )?,
            output: number(
                "output",
                content.and_then(|c| c.output.as_ref()),
                caps.and_then(|c| c.output.as_ref()),
                base.output,
            )?,
            log: number(
                "log",
                content.and_then(|c| c.log.as_ref()),
                caps.and_then(|c| c.log.as_ref()),
                base.log,
            )?,
            ..base.clone()
        })
    }

    /// The value of `hook.yaml`, else the default. A cap lowers the default and refuses a higher value of `hook.yaml`.
    fn limit<T: Ord + Copy + std::fmt::Debug>(
        &self,
        name: &str,
        own: Option<(T, YamlPosition)>,
        cap: Option<(T, YamlPosition)>,
        base: T,
    ) -> Result<T, ResolveError> {
        let (Some((cap, cap_place)), Some(operator)) = (cap, self.operator) else {
            return Ok(own.map_or(base, |(own, _)| own));
        };
        let Some(((own, place), yaml)) = own.zip(self.yaml) else {
            return Ok(base.min(cap));
        };
        if own <= cap {
            return Ok(own);
        }
        let reason = format!(
            "{name} is {own:?} and may be {cap:?} at most, as {} says",
            operator.at(cap_place)
        );
        Err(yaml.wrong(place, reason).into())
    }
}
