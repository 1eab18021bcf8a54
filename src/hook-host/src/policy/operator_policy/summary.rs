//! What an operator's policy allows, in words, and what an operator may not have meant.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::time::Duration;

use super::{Allow, Content, Digests, OperatorPolicy, Rule, Sidecars};
use crate::policy::hook_yaml::Point;
use crate::policy::yaml_values::{Dangerous, Located};
use crate::{FailurePolicy, HookPoint, PodPattern};

/// Failure policies with which a module enforces nothing.
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

/// What a policy allows, a line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySummary {
    /// What holds for all hooks, and each rule under a line of its own.
    pub allows: Vec<String>,
    /// What leaves more open than a careful operator's policy does.
    pub warnings: Vec<PolicyWarning>,
}

/// A key that leaves much open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWarning {
    /// `FILE:LINE:COLUMN`, or `FILE` for a key that is not there.
    pub place: String,
    /// What it leaves open, and the way out.
    pub text: &'static str,
}

impl OperatorPolicy {
    /// What the policy allows.
    #[must_use]
    pub fn summary(&self) -> PolicySummary {
        PolicySummary {
            allows: self.content.lines(),
            warnings: self.warnings(),
        }
    }

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
        let allow = content.allow.as_ref().map(Located::get);
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
        let rules = || self.content.rules.iter().map(Located::get);
        let top_migration = allow.is_some_and(|allow| allow.migration.is_some());
        for allow in allow.into_iter().chain(rules().map(|rule| &rule.allow)) {
            if let Some(points) = &allow.hook_points
                && points.get().contains(&Point::PreMigrationSource)
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
        let on_arrival = self.sidecars_on_arrival.iter().flat_map(Located::get);
        let on_arrival: String = on_arrival.map(|name| format!(", sidecar {name}")).collect();
        let policies: Vec<String> = self
            .failure_policies()
            .iter()
            .map(|one| format!("{one:?}"))
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
        let allow = self.allow.as_ref().map_or(&empty, Located::get);
        lines.extend(allow.lines(true));
        for rule in &self.rules {
            lines.push(format!("{}, instead:", rule.get().who()));
            if rule.get().keys.is_some() {
                lines.push("  not signed by such a key: refused".to_owned());
            }
            lines.extend(rule.get().allow.lines(false));
        }
        lines
    }

    fn limit_line(&self) -> String {
        let limits = &self.limits;
        let time = |value: Duration| format!("deadline {value:?}");
        let deadline = limits.deadline.as_ref().map(|value| time(value.get().0));
        let sizes = [
            ("memory", &limits.memory),
            ("output", &limits.output),
            ("log", &limits.log),
        ];
        let sizes = sizes.into_iter().filter_map(|(name, value)| {
            let bytes = value.as_ref()?.get().0;
            Some(format!("{name} {bytes} bytes"))
        });
        let set: Vec<String> = deadline.into_iter().chain(sizes).collect();
        match set.is_empty() {
            true => "the host's own".to_owned(),
            false => set.join(", "),
        }
    }
}

impl Rule {
    fn who(&self) -> String {
        let digests = self.digests().iter().map(|digest| digest.0.as_str());
        let digests = listed("sha256", &digests.collect::<Vec<_>>());
        let namespaces = self.namespaces().iter().map(|name| name.get().as_str());
        let namespaces = listed("namespace", &namespaces.collect::<Vec<_>>());
        let both: Vec<String> = digests.into_iter().chain(namespaces).collect();
        let who = match &both[..] {
            [] => "any module".to_owned(),
            both => both.join(" in "),
        };
        let keys = self.signers().into_iter().flatten();
        let keys: Vec<String> = keys.map(|key| key.id().to_string()).collect();
        match keys.is_empty() {
            true => who,
            false => format!("{who}, signed by the key {}", keys.join(" or ")),
        }
    }
}

fn listed(what: &str, items: &[&str]) -> Option<String> {
    (!items.is_empty()).then(|| format!("{what} {}", items.join(" or ")))
}

impl Allow {
    /// `with_defaults`: also what holds for lists that are left out.
    fn lines(&self, with_defaults: bool) -> Vec<String> {
        let paths = self.paths.as_ref().map(|list| {
            let paths = list.get().iter().map(|path| path.get().0.to_string());
            paths.collect::<Vec<_>>()
        });
        let dangerous = self.dangerous.as_ref().map(|list| {
            let granted = list.get().iter().map(|one| match one.get() {
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
        let facts = |list: &Option<Located<Vec<PodPattern>>>| {
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
