//! The operator's word on plugin sidecars: they are gRPC sidecars like all others.

use std::collections::BTreeMap;

use super::grant::Grant;
use super::hook_yaml::FailurePolicy;
use super::operator::{OperatorPolicy, Sidecars};
use super::settle::Settings;
use crate::Limits;

/// How a plugin's hook is run, and the reason if it may not run at all. Its own failure strategy
/// decides what that means, unless the strategy is what is forbidden.
pub(crate) fn settle_plugin(
    wanted: FailurePolicy,
    base: &Limits,
    operator: Option<&OperatorPolicy>,
) -> (Settings, Option<String>) {
    let strategy = operator.and_then(|operator| operator.forbids_policy(wanted));
    let failure_policy = match strategy {
        Some(_) => FailurePolicy::Fail,
        None => wanted,
    };
    let settings = Settings {
        hook_points: Vec::new(),
        failure_policy,
        limits: base.clone(),
        config: BTreeMap::new(),
        dirs: Vec::new(),
        grant: Grant::unlimited(),
    };
    let sidecars = || operator.and_then(OperatorPolicy::forbids_sidecars);
    (settings, strategy.or_else(sidecars))
}

impl OperatorPolicy {
    fn forbids_sidecars(&self) -> Option<String> {
        let sidecars = self.content.sidecars.as_ref()?;
        (*sidecars.get() == Sidecars::Forbid)
            .then(|| format!("{}: gRPC sidecars are forbidden", self.at(sidecars.place())))
    }

    fn forbids_policy(&self, wanted: FailurePolicy) -> Option<String> {
        let allowed = self.content.failure_policies.as_ref()?;
        (!allowed.get().contains(&wanted)).then(|| {
            format!(
                "the failure strategy {wanted:?} is not among the failurePolicies of {}",
                self.at(allowed.place())
            )
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;

    fn settle(wanted: FailurePolicy, policy: &str) -> (FailurePolicy, Option<String>) {
        let operator = OperatorPolicy::parse(Path::new("p.yaml"), policy).unwrap();
        let (settings, reason) = settle_plugin(wanted, &Limits::default(), Some(&operator));
        (settings.failure_policy, reason)
    }

    #[test]
    fn the_operators_word_holds_for_plugins() {
        let (fail, ignore) = (FailurePolicy::Fail, FailurePolicy::Ignore);
        assert_eq!(settle(ignore, "sidecars: Allow\n"), (ignore, None));
        assert_eq!(
            settle(ignore, "sidecars: Forbid\n"),
            (
                ignore,
                Some("p.yaml:1:11: gRPC sidecars are forbidden".into())
            )
        );
        let (policy, reason) = settle(ignore, "failurePolicies: [Fail]\n");
        assert_eq!(
            policy, fail,
            "a strategy that is forbidden forgives nothing"
        );
        assert!(
            reason
                .unwrap()
                .contains("Ignore is not among the failurePolicies of p.yaml:1:18")
        );
        assert_eq!(settle(fail, "failurePolicies: [Fail]\n"), (fail, None));
        assert_eq!(settle_plugin(fail, &Limits::default(), None).1, None);
    }
}
