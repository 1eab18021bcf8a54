//! What it may use.

use super::{SettleError, Terms};
use crate::Limits;
use crate::policy::read::Place;
use crate::policy::values::{At, Bytes};

impl Terms<'_> {
    pub(super) fn limits(&self, base: &Limits) -> Result<Limits, SettleError> {
        let content = self.yaml.map(|yaml| &yaml.content);
        let caps = self.operator.map(|operator| &operator.content.limits);
        let number = |name, own: Option<&At<Bytes>>, cap: Option<&At<Bytes>>, base| {
            let own = own.map(|own| (own.get().0, own.place()));
            self.limit(name, own, cap.map(|cap| (cap.get().0, cap.place())), base)
        };
        let deadline = content.and_then(|c| c.deadline.as_ref());
        let deadline_cap = caps.and_then(|c| c.deadline.as_ref());
        Ok(Limits {
            call_deadline: self.limit(
                "deadline",
                deadline.map(|own| (own.get().0, own.place())),
                deadline_cap.map(|cap| (cap.get().0, cap.place())),
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

    /// What `hook.yaml` sets, else the default; a cap lowers the default and refuses the wish.
    fn limit<T: Ord + Copy + std::fmt::Debug>(
        &self,
        name: &str,
        own: Option<(T, Place)>,
        cap: Option<(T, Place)>,
        base: T,
    ) -> Result<T, SettleError> {
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
