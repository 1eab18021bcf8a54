//! Resolves the failure policy of a hook.

use super::{ResolveError, Resolver};
use crate::FailurePolicy;

impl Resolver<'_> {
    pub(super) fn failure_policy(&self) -> Result<FailurePolicy, ResolveError> {
        let wanted = self
            .yaml
            .and_then(|y| Some((y, y.content.failure_policy.as_ref()?)));
        let Some((yaml, wanted)) = wanted else {
            return Ok(FailurePolicy::Fail);
        };
        let operator = self
            .operator
            .and_then(|o| Some((o, o.content.failure_policies.as_ref()?)));
        if let Some((operator, allowed)) = operator
            && !allowed.get().contains(wanted.get())
        {
            let reason = format!(
                "the failure policy {:?} is not among the failurePolicies of {}",
                wanted.get(),
                operator.at(allowed.position())
            );
            return Err(yaml.wrong(wanted.position(), reason).into());
        }
        Ok(*wanted.get())
    }
}
