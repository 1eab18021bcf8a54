//! The part of the operator's policy for gRPC sidecars and plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::domain_grant::Grant;
use super::effective_settings::EffectiveSettings;
use super::operator_policy::{OperatorPolicy, Sidecars};
use super::policy_file::PolicyError;
use crate::{FailurePolicy, Limits};

/// The settings of a plugin's hook. If the failure strategy is forbidden, the settings have `Fail`, and the reason is
/// returned too.
pub(crate) fn resolve_plugin(
    requested: FailurePolicy,
    base: &Limits,
    operator: Option<&OperatorPolicy>,
) -> (EffectiveSettings, Option<String>) {
    let forbidden = operator.and_then(|operator| operator.forbids_failure_policy(requested));
    let settings = EffectiveSettings {
        hook_points: Vec::new(),
        final_rule: None,
        failure_policy: match forbidden {
            Some(_) => FailurePolicy::Fail,
            None => requested,
        },
        limits: base.clone(),
        config: BTreeMap::new(),
        dirs: Vec::new(),
        dir_roots: Vec::new(),
        migration: BTreeSet::new(),
        pod: Arc::default(),
        grant: Grant::unlimited(),
    };
    (settings, forbidden)
}

impl OperatorPolicy {
    /// The position and text of the line that forbids gRPC sidecars, if any.
    pub(crate) fn forbids_sidecars(&self) -> Option<String> {
        let sidecars = self.content.sidecars.as_ref()?;
        (*sidecars.get() == Sidecars::Forbid).then(|| {
            format!(
                "{}: gRPC sidecars are forbidden",
                self.at(sidecars.position())
            )
        })
    }

    /// Whether a gRPC sidecar or plugin of one of these names is called with a domain that arrives by a migration.
    pub(crate) fn runs_on_arrival(&self, names: [&str; 2]) -> bool {
        let listed = self.content.sidecars_on_arrival.as_ref();
        listed.is_some_and(|listed| {
            names
                .iter()
                .any(|name| listed.get().iter().any(|listed| listed == name))
        })
    }

    /// Refuses a `sidecarsOnArrival` with names of sidecars that can never be called.
    pub(super) fn check_arrival(&self) -> Result<(), PolicyError> {
        let Some(listed) = &self.content.sidecars_on_arrival else {
            return Ok(());
        };
        let reason = match listed.get() {
            names if names.iter().any(String::is_empty) => "a sidecar has no empty name",
            names if !names.is_empty() && self.forbids_sidecars().is_some() => {
                "sidecars are forbidden, and so are those that it names"
            }
            _ => return Ok(()),
        };
        Err(PolicyError::at(&self.path, listed.position(), reason))
    }

    /// Why a failure policy is forbidden, if it is.
    fn forbids_failure_policy(&self, requested: FailurePolicy) -> Option<String> {
        let allowed = self.content.failure_policies.as_ref()?;
        (!allowed.get().contains(&requested)).then(|| {
            format!(
                "the failure strategy {requested:?} is not among the failurePolicies of {}",
                self.at(allowed.position())
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn policy(text: &str) -> OperatorPolicy {
        OperatorPolicy::parse(Path::new("p.yaml"), text).unwrap()
    }

    #[test]
    fn only_listed_sidecars_are_called_with_an_arriving_domain() {
        let listed = policy("sidecarsOnArrival: [shim, hook-sidecar-3]\n");
        assert!(listed.runs_on_arrival(["hook-sidecar-0", "shim"]));
        assert!(listed.runs_on_arrival(["hook-sidecar-3", "other"]));
        assert!(!listed.runs_on_arrival(["hook-sidecar-0", "other"]));
        for text in ["{}\n", "sidecarsOnArrival: []\n"] {
            assert!(!policy(text).runs_on_arrival(["hook-sidecar-0", "shim"]));
        }
        for (text, position) in [
            ("sidecarsOnArrival: ['']\n", "p.yaml:1:20: "),
            (
                "sidecars: Forbid\nsidecarsOnArrival: [a]\n",
                "p.yaml:2:20: ",
            ),
        ] {
            let error = OperatorPolicy::parse(Path::new("p.yaml"), text).unwrap_err();
            assert!(error.to_string().starts_with(position), "{error}");
        }
    }

    #[test]
    fn sidecars_and_failure_strategies_of_plugins_can_be_forbidden() {
        assert_eq!(policy("sidecars: Allow\n").forbids_sidecars(), None);
        assert_eq!(
            policy("sidecars: Forbid\n").forbids_sidecars().as_deref(),
            Some("p.yaml:1:11: gRPC sidecars are forbidden")
        );
        let resolve = |requested, policy: Option<&OperatorPolicy>| {
            let (settings, reason) = resolve_plugin(requested, &Limits::default(), policy);
            (settings.failure_policy, reason)
        };
        let (fail, ignore) = (FailurePolicy::Fail, FailurePolicy::Ignore);
        let strict = policy("failurePolicies: [Fail]\n");
        assert_eq!(resolve(ignore, None), (ignore, None));
        assert_eq!(resolve(fail, Some(&strict)), (fail, None));
        let (policy, reason) = resolve(ignore, Some(&strict));
        assert_eq!(policy, fail, "a forbidden strategy counts as Fail");
        let expected = "Ignore is not among the failurePolicies of p.yaml:1:18";
        assert!(reason.unwrap().contains(expected));
    }
}
