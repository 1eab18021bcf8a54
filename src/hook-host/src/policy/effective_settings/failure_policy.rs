//! Resolves the failure policy of a hook.

use super::{ResolveError, Resolver};
use crate::FailurePolicy;

impl Resolver<'_> {
    pub(super) fn failure_policy(&self) -> Result<FailurePolicy, ResolveError> {
        let requested = self
            .yaml
            .and_then(|y| Some((y, y.content.failure_policy.as_ref()?)));
        let Some((yaml, requested)) = requested else {
            return Ok(FailurePolicy::Fail);
        };
        let operator = self
            .operator
            .and_then(|o| Some((o, o.content.failure_policies.as_ref()?)));
        if let Some((operator, allowed)) = operator
            && !allowed.get().contains(requested.get())
        {
            let reason = format!(
                "the failure policy {:?} is not among the failurePolicies of {}",
                requested.get(),
                operator.at(allowed.position())
            );
            return Err(yaml.error_at(requested.position(), reason).into());
        }
        Ok(*requested.get())
    }
}
