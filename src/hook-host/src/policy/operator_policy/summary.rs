//! What an operator's policy allows, as lines of text.

#[cfg(test)]
mod tests;
mod warnings;

use std::time::Duration;

use super::{Allow, Content, Digests, OperatorPolicy, Rule, Sidecars};
use crate::policy::yaml_values::{Dangerous, SignerKey, WithPosition};
use crate::{FailurePolicy, HookPoint, PodPattern};

pub use warnings::PolicyWarning;

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
