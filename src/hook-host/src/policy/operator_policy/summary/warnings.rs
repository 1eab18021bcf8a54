//! Warnings about a policy that leaves more open than its author may have meant.

use std::collections::HashMap;

use super::{Digests, OperatorPolicy, Sidecars};
use crate::FailurePolicy;
use crate::policy::hook_yaml::HookPointName;
use crate::policy::yaml_values::{SignerKey, WithPosition};

/// Failure policies with which a module cannot enforce anything, and their warnings.
const LOOSE_FAILURE_POLICIES: [(FailurePolicy, &str); 2] = [
    (
        FailurePolicy::Ignore,
        "a hook.yaml may say Ignore: then a hook that fails or refuses stops nothing; \
         `failurePolicies: [Fail]` forbids it",
    ),
    (
        FailurePolicy::DryRun,
        "a hook.yaml may say DryRun: then a hook's changes are discarded, and its refusal too; \
         `failurePolicies: [Fail]` forbids it",
    ),
];

/// A warning about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWarning {
    /// `FILE:LINE:COLUMN`, or `FILE` for an absent key.
    pub place: String,
    /// What the key leaves open, and how to restrict it.
    pub text: &'static str,
}

impl OperatorPolicy {
    pub(super) fn warnings(&self) -> Vec<PolicyWarning> {
        let content = &self.content;
        let file = || self.path.display().to_string();
        let mut warnings = Vec::new();
        let mut warn = |place: String, text| warnings.push(PolicyWarning { place, text });
        if content.digests() == Digests::Any {
            let place = content.digests.as_ref().map(|key| self.at(key.position()));
            let text = "any module may run; `digests: Listed` lets only those of a rule run";
            warn(place.unwrap_or_else(file), text);
        }
        if content.sidecars() == Sidecars::Allow {
            let place = content.sidecars.as_ref().map(|key| self.at(key.position()));
            let text = "gRPC sidecars are arbitrary code and are not restricted by anything here; \
                        `sidecars: Forbid` refuses them";
            warn(place.unwrap_or_else(file), text);
        }
        for (policy, text) in LOOSE_FAILURE_POLICIES {
            if content.failure_policies().contains(&policy) {
                let place = content.failure_policies.as_ref();
                let place = place.map(|key| self.at(key.position()));
                warn(place.unwrap_or_else(file), text);
            }
        }
        let allow = content.allow.as_ref().map(WithPosition::get);
        let top = content.allow.as_ref().map(|key| self.at(key.position()));
        let top = || top.clone().unwrap_or_else(file);
        if allow.is_none_or(|allow| allow.paths.is_none()) {
            let text = "without `paths`, every module may change what it declares, short of the \
                        dangerous set; `paths: []` leaves that to the rules";
            warn(top(), text);
        }
        if allow.is_none_or(|allow| allow.hook_points.is_none()) {
            let text = "without `hookPoints`, every module may be called at PreCloudInitIso, which \
                        rewrites what runs as root in the guest, and reads its passwords and keys";
            warn(top(), text);
        }
        let rules = || self.content.rules.iter().map(WithPosition::get);
        let top_migration = allow.is_some_and(|allow| allow.migration.is_some());
        for allow in allow.into_iter().chain(rules().map(|rule| &rule.allow)) {
            if let Some(points) = &allow.hook_points
                && points.get().contains(&HookPointName::PreMigrationSource)
                && allow.migration.is_none()
                && !top_migration
            {
                let text = "PreMigrationSource without `migration`: the module may change every \
                            parameter of a migration that it declares; `migration: []` grants none";
                warn(self.at(points.position()), text);
            }
        }
        if let Some(dangerous) = allow.and_then(|allow| allow.dangerous.as_ref())
            && !dangerous.get().is_empty()
        {
            let text = "every module gets this part of the dangerous set; grant it in a rule, to \
                        digests";
            warn(self.at(dangerous.position()), text);
        }
        let lists = |digest: &str| {
            rules().any(|rule| rule.digests().iter().any(|listed| listed.0 == digest))
        };
        for denied in &content.denied_digests {
            if lists(&denied.get().0) {
                let text = "a rule lists this digest, too: its module is denied all the same; take it out of the rule";
                warn(self.at(denied.position()), text);
            }
        }
        for place in self.places_of_undated_keys() {
            let text = "the same key has a later `notBefore` in this policy: here its older signatures count all the same; \
                        write the same `notBefore` beside the key";
            warn(place, text);
        }
        for rule in &content.rules {
            if let Some(dangerous) = &rule.get().allow.dangerous
                && rule.get().digests.is_none()
                && rule.get().keys.is_none()
                && !dangerous.get().is_empty()
            {
                let text = "every module of these namespaces gets this part of the dangerous set; \
                            name the digests of those that need it";
                warn(self.at(dangerous.position()), text);
            }
        }
        warnings
    }

    /// The places of keys without a `notBefore`, or with an earlier one than the same key has elsewhere.
    fn places_of_undated_keys(&self) -> Vec<String> {
        let rules = self.content.rules.iter();
        let lists = rules.filter_map(|rule| rule.get().keys.as_ref());
        let keys: Vec<_> = lists.flat_map(|list| list.get()).collect();
        let date = |key: &SignerKey| key.not_before.as_ref().map(|date| *date.get());
        let mut latest = HashMap::new();
        for key in keys.iter().map(|key| key.get()) {
            let known = latest.entry(key.key.id()).or_insert(None);
            *known = date(key).max(known.take());
        }
        let undated = keys.into_iter().filter(|key| {
            let key = key.get();
            latest.get(&key.key.id()) != Some(&date(key))
        });
        undated.map(|key| self.at(key.position())).collect()
    }
}
