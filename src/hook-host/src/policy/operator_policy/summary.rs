//! What an operator's policy allows, as lines of text.

use std::collections::HashMap;
use std::time::Duration;

use super::{Allow, Content, Digests, OperatorPolicy, Rule, Sidecars};
use crate::policy::hook_yaml::HookPointName;
use crate::policy::yaml_values::{Dangerous, SignerKey, WithPosition};
use crate::{FailurePolicy, HookPoint, PodPattern};

/// What a policy allows, and warnings about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySummary {
    /// Lines about what all hooks may do, then about each rule.
    pub allows: Vec<String>,
    /// Warnings about keys that leave more open than a careful policy does.
    pub warnings: Vec<PolicyWarning>,
}

impl OperatorPolicy {
    /// The summary of the policy.
    #[must_use]
    pub fn summary(&self) -> PolicySummary {
        PolicySummary {
            allows: self.content.lines(),
            warnings: self.warnings(),
        }
    }
}

impl Content {
    fn digests(&self) -> Digests {
        self.digests.as_ref().map_or(Digests::Any, |key| *key.get())
    }

    fn sidecars(&self) -> Sidecars {
        self.sidecars
            .as_ref()
            .map_or(Sidecars::Allow, |key| *key.get())
    }

    fn failure_policies(&self) -> Vec<FailurePolicy> {
        let all = || {
            vec![
                FailurePolicy::Fail,
                FailurePolicy::Ignore,
                FailurePolicy::DryRun,
            ]
        };
        let named = self.failure_policies.as_ref();
        named.map_or_else(all, |key| key.get().clone())
    }

    fn lines(&self) -> Vec<String> {
        let modules = match self.digests() {
            Digests::Any => "any",
            Digests::Pinned => {
                "those whose sha256 is in their hook.yaml or in a rule, or that a rule's key signed"
            }
            Digests::Listed => "those whose sha256 is in a rule, or that a rule's key signed",
        };
        let sidecars = match self.sidecars() {
            Sidecars::Allow => "any, unrestricted",
            Sidecars::Forbid => "none",
        };
        let on_arrival = self.sidecars_on_arrival.iter().flat_map(WithPosition::get);
        let on_arrival: String = on_arrival.map(|name| format!(", sidecar {name}")).collect();
        let policies: Vec<String> = self
            .failure_policies()
            .iter()
            .map(|policy| format!("{policy:?}"))
            .collect();
        let mut lines = vec![
            format!("modules: {modules}"),
            format!("gRPC sidecars: {sidecars}"),
            format!("called with a domain that arrives by a migration: modules{on_arrival}"),
            format!("failure policies: {}", policies.join(", ")),
            format!("limits: {}", self.limit_line()),
            "all hooks:".to_owned(),
        ];
        let empty = Allow::default();
        let allow = self.allow.as_ref().map_or(&empty, WithPosition::get);
        lines.extend(allow.lines(true));
        if !self.denied_digests.is_empty() {
            let denied = self.denied_digests.iter();
            let denied: Vec<&str> = denied.map(|digest| digest.get().0.as_str()).collect();
            lines.insert(1, format!("never: sha256 {}", denied.join(" or ")));
        }
        for rule in &self.rules {
            lines.push(format!("{}, instead:", rule.get().subject()));
            if rule.get().final_position().is_some() {
                lines.push(
                    "  final: called after all other hooks, what it changed is sealed".to_owned(),
                );
            }
            if rule.get().keys.is_some() {
                lines.push("  not signed by such a key: refused".to_owned());
            }
            lines.extend(rule.get().allow.lines(false));
        }
        lines
    }

    fn limit_line(&self) -> String {
        let limits = &self.limits;
        let deadline_text = |value: Duration| format!("deadline {value:?}");
        let deadline = limits.deadline.as_ref();
        let deadline = deadline.map(|value| deadline_text(value.get().0));
        let sizes = [
            ("memory", &limits.memory),
            ("output", &limits.output),
            ("log", &limits.log),
        ];
        let sizes = sizes.into_iter().filter_map(|(name, value)| {
            let bytes = value.as_ref()?.get().0;
            Some(format!("{name} {bytes} bytes"))
        });
        let caps: Vec<String> = deadline.into_iter().chain(sizes).collect();
        match caps.is_empty() {
            true => "the host's own".to_owned(),
            false => caps.join(", "),
        }
    }
}

impl Rule {
    /// The modules that the rule names.
    fn subject(&self) -> String {
        let digests = self.digests().iter().map(|digest| digest.0.as_str());
        let digests = join_alternatives("sha256", &digests.collect::<Vec<_>>());
        let namespaces = self.namespaces().iter().map(|name| name.get().as_str());
        let namespaces = join_alternatives("namespace", &namespaces.collect::<Vec<_>>());
        let parts: Vec<String> = digests.into_iter().chain(namespaces).collect();
        let modules = match &parts[..] {
            [] => "any module".to_owned(),
            parts => parts.join(" in "),
        };
        let keys = self.signers().into_iter().flatten();
        let keys: Vec<String> = keys.map(SignerKey::text).collect();
        match keys.is_empty() {
            true => modules,
            false => format!("{modules}, signed by the key {}", keys.join(" or ")),
        }
    }
}

impl SignerKey {
    /// The key's id and its condition.
    fn text(&self) -> String {
        let id = self.key.id();
        match &self.not_before {
            None => id.to_string(),
            Some(date) => format!("{id} (not before {})", date.get()),
        }
    }
}

/// `WHAT ITEM or ITEM`; `None` if there are no items.
fn join_alternatives(what: &str, items: &[&str]) -> Option<String> {
    (!items.is_empty()).then(|| format!("{what} {}", items.join(" or ")))
}

impl Allow {
    /// A line per list; `with_defaults` adds lines for absent lists.
    fn lines(&self, with_defaults: bool) -> Vec<String> {
        let paths = self.paths.as_ref().map(|list| {
            let paths = list.get().iter().map(|path| path.get().to_string());
            paths.collect::<Vec<_>>()
        });
        let dangerous = self.dangerous.as_ref().map(|list| {
            let granted = list.get().iter().map(|dangerous| match dangerous.get() {
                Dangerous::Path(path) => path.to_string(),
                Dangerous::Kind(kind) => kind.name().to_owned(),
            });
            granted.collect::<Vec<_>>()
        });
        let dirs = self.dirs.as_ref().map(|list| {
            let dirs = list
                .get()
                .iter()
                .map(|dir| dir.get().0.display().to_string());
            dirs.collect::<Vec<_>>()
        });
        let config = self.config.as_ref().map(|list| list.get().clone());
        let points = self.hook_points.as_ref().map(|list| {
            let points = list.get().iter().map(|point| HookPoint::from(*point));
            points.map(|point| point.name().to_owned()).collect()
        });
        let migration = self.migration.as_ref().map(|list| {
            let parameters = list.get().iter();
            parameters.map(ToString::to_string).collect()
        });
        let facts = |list: &Option<WithPosition<Vec<PodPattern>>>| {
            let list = list.as_ref()?.get().iter();
            Some(list.map(ToString::to_string).collect())
        };
        let lists = [
            (
                "paths",
                paths,
                "what each module declares, short of the dangerous set",
            ),
            ("dangerous", dangerous, "nothing"),
            ("dirs", dirs, "nothing"),
            ("config", config, "what each module declares"),
            ("hookPoints", points, "what each module declares"),
            ("migration", migration, "what each module declares"),
            ("pod", facts(&self.pod), "nothing"),
            ("podRecords", facts(&self.pod_records), "nothing"),
        ];
        let line = |(name, list, default): (&str, Option<Vec<String>>, &str)| match list {
            Some(list) if list.is_empty() => Some(format!("  {name}: nothing")),
            Some(list) => Some(format!("  {name}: {}", list.join(", "))),
            None => with_defaults.then(|| format!("  {name}: {default}")),
        };
        lists.into_iter().filter_map(line).collect()
    }
}

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
    fn warnings(&self) -> Vec<PolicyWarning> {
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

#[cfg(test)]
mod tests;
