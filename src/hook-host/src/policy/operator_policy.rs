//! The operator's policy, which is the security boundary.

mod summary;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use sigstore_bundle::PublicKey;

use super::policy_file::{PolicyError, YamlPosition};
use super::yaml_values::{SizeValue, WithPosition};
use super::{policy_file, strict_yaml};
use crate::policy::dangerous_patterns::kinds_named;
use crate::policy::hook_yaml::{
    HookPointName, MAX_DEADLINE, MAX_LOG, MAX_MEMORY, MAX_OUTPUT, MIN_MEMORY, MIN_OUTPUT,
};
use crate::policy::yaml_values::{Dangerous, Directory, DurationValue, Sha256, SignerKey};
use crate::printable::printable;
use crate::{ConditionedPath, FailurePolicy, Limits, MigrationParameter, PodPattern};
pub use summary::{PolicySummary, PolicyWarning};

/// The operator's policy. All keys are optional; an empty policy caps nothing and grants nothing
/// of the dangerous set.
///
/// ```yaml
/// digests: Pinned             # Any (default) | Pinned | Listed
/// sidecars: Allow             # Allow (default) | Forbid: gRPC sidecars
/// sidecarsOnArrival: [shim]   # sidecars and plugins that may edit a domain that arrives by a migration
/// appliedEvents: Omit         # Publish (default) | Omit: a Kubernetes event per hook and boot
/// failurePolicies: [Fail]     # what hook.yaml may set; default all of Fail, Ignore, DryRun
/// limits:                     # maximum of hook.yaml, and for all modules
///   deadline: 1s
///   memory: 32Mi
///   output: 4Mi
///   log: 64Ki
/// allow:                      # absent lists do not narrow, except dangerous, dirs and pod
///   paths: ["/domain/sysinfo/baseBoard/**", "/domain/os/smbios/**"]
///   dangerous: []             # of the dangerous set; if absent, nothing
///   dirs: []                  # directories; if absent, none
///   config: [manufacturer]
///   hookPoints: [OnDefineDomain]
///   migration: [bandwidth]    # the parameters of a migration that hooks may change
///   pod: [network-info]       # facts about the pod; if absent, none
///   podRecords: []            # facts that records keep; if absent, none
/// rules:                      # a list of a rule replaces the one above, for the modules that the rule names
///   - digests: [2c26...]      # one or both; a module must match both
///     namespaces: [infra]
///     keys: ["-----BEGIN PUBLIC KEY-----..."] # named modules run only if one of the keys signed them;
///                             # {key: PEM, notBefore: 2026-11-01T00:00:00Z} for a key with an earliest date
///     final: true             # they run after all other hooks, and what they changed is sealed
///     allow:
///       dangerous: ["/domain/devices/interface/script/@path"]
/// deniedDigests: [5ab1...]    # modules that never run, whatever the rules say
/// ```
#[derive(Debug, Clone)]
pub struct OperatorPolicy {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// The minimum deadline of `describe`.
const MIN_DESCRIBE_DEADLINE: Duration = Duration::from_millis(500);

impl OperatorPolicy {
    /// Parses the text of a policy. Errors name the file `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PolicyError> {
        let policy = Self {
            path: path.to_owned(),
            content: strict_yaml::parse(path, text)?,
        };
        policy.check()?;
        Ok(policy)
    }

    /// Reads and parses the policy; `None` if there is none.
    pub fn read(source: &PolicySource) -> Result<Option<Self>, PolicyError> {
        let (path, required) = match source {
            PolicySource::None => return Ok(None),
            PolicySource::IfPresent(path) => (path, false),
            PolicySource::File(path) => (path, true),
        };
        match policy_file::read_at(path)? {
            Some(text) => Self::parse(path, &text).map(Some),
            None if required => Err(PolicyError::Read {
                path: path.clone(),
                reason: "there is no such file".to_owned(),
            }),
            None => Ok(None),
        }
    }

    /// Whether a Kubernetes event is published for each hook that was applied to a VM.
    pub(crate) fn publishes_applied_events(&self) -> bool {
        let events = self.content.applied_events.as_ref().map(WithPosition::get);
        events.is_none_or(|events| *events == AppliedEvents::Publish)
    }

    /// The limits of `describe`, which is called before a module's settings are resolved. The deadline is at least
    /// [`MIN_DESCRIBE_DEADLINE`]: a shorter deadline is meant for hook points, and `describe` runs while other modules
    /// are compiled.
    pub(crate) fn cap(&self, limits: &Limits) -> Limits {
        let caps = &self.content.limits;
        let size = |cap: &Option<WithPosition<SizeValue>>, limit: usize| match cap {
            Some(cap) => limit.min(cap.get().0),
            None => limit,
        };
        let deadline = caps.deadline.as_ref();
        let deadline = deadline.map(|cap| cap.get().0.max(MIN_DESCRIBE_DEADLINE));
        Limits {
            call_deadline: deadline
                .map_or(limits.call_deadline, |cap| limits.call_deadline.min(cap)),
            memory: size(&caps.memory, limits.memory),
            output: size(&caps.output, limits.output),
            log: size(&caps.log, limits.log),
            ..limits.clone()
        }
    }

    /// The position of the cap of memory, if the cap is lower than this number of bytes.
    #[must_use]
    pub fn lower_memory(&self, bytes: usize) -> Option<String> {
        let cap = self.content.limits.memory.as_ref();
        let cap = cap.filter(|cap| cap.get().0 < bytes)?;
        Some(self.at(cap.position()))
    }

    /// All directories that the policy grants, to any module.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        let of_all = self.content.allow.iter().map(WithPosition::get);
        let of_rules = self.content.rules.iter().map(|rule| &rule.get().allow);
        let lists = of_all
            .chain(of_rules)
            .filter_map(|allow| allow.dirs.as_ref());
        let dirs = lists.flat_map(|list| list.get());
        dirs.map(|dir| dir.get().0.as_path())
    }

    /// Whether a module's settings may depend on the namespace.
    #[must_use]
    pub fn has_namespace_rules(&self) -> bool {
        let mut rules = self.content.rules.iter();
        rules.any(|rule| rule.get().namespaces.is_some())
    }

    /// The rules that name a module by its digest and namespace.
    pub(super) fn rules(&self, digest: &str, namespace: &str) -> Vec<&Rule> {
        let rules = self.content.rules.iter().map(WithPosition::get);
        rules.filter(|rule| rule.names(digest, namespace)).collect()
    }

    /// The position of the first `final: true` of a rule that names a module by its digest and namespace, whether or not
    /// its keys signed the module. Without a digest, that of the first rule that names any module in the namespace.
    pub(crate) fn first_final_rule(&self, digest: Option<&str>, namespace: &str) -> Option<String> {
        let rules = self.content.rules.iter().map(WithPosition::get);
        let mut named = rules.filter(|rule| match digest {
            Some(digest) => rule.names(digest, namespace),
            None => rule.applies_in(namespace),
        });
        let position = named.find_map(Rule::final_position)?;
        Some(self.at(position))
    }

    /// The keys of the rules that name a module by its digest and namespace.
    pub(crate) fn signers(&self, digest: &str, namespace: &str) -> Vec<&PublicKey> {
        let rules = self.rules(digest, namespace).into_iter();
        let signers = rules.filter_map(Rule::signers).flatten();
        signers.map(|signer| &signer.key).collect()
    }

    /// The position at which the policy denies a module of this digest, whatever else it says.
    pub(super) fn denial(&self, digest: &str) -> Option<String> {
        let mut denied = self.content.denied_digests.iter();
        let denied = denied.find(|denied| denied.get().0 == digest)?;
        Some(self.at(denied.position()))
    }

    /// Whether a rule lists this digest and applies in the namespace.
    pub(super) fn lists_digest(&self, digest: &str, namespace: &str) -> bool {
        let rules = self.rules(digest, namespace);
        rules.iter().any(|rule| rule.digests.is_some())
    }

    /// A position as `FILE:LINE:COLUMN`.
    pub(super) fn at(&self, position: YamlPosition) -> String {
        let path = self.path.display();
        format!("{path}:{}:{}", position.line, position.column)
    }
}

/// The location of the operator's policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PolicySource {
    /// There is no policy.
    #[default]
    None,
    /// This file, if it exists. For a default path.
    IfPresent(PathBuf),
    /// This file, which must exist.
    File(PathBuf),
}

/// Which modules may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Digests {
    /// Any module.
    #[default]
    Any,
    /// Modules whose digest is in their `hook.yaml` or in a rule that applies in the VM's namespace, or that a key of
    /// such a rule signed.
    Pinned,
    /// Modules whose digest is in a rule that applies in the VM's namespace, or that a key of such a rule signed.
    Listed,
}

/// Whether gRPC sidecars may run. They are arbitrary code, whose changes are recorded but not restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Sidecars {
    #[default]
    Allow,
    Forbid,
}

/// Whether a Kubernetes event is published for each hook that was applied to a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum AppliedEvents {
    #[default]
    Publish,
    Omit,
}

/// The content of a policy. [`OperatorPolicy`] documents the keys.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Content {
    pub(super) digests: Option<WithPosition<Digests>>,
    pub(super) sidecars: Option<WithPosition<Sidecars>>,
    pub(super) sidecars_on_arrival: Option<WithPosition<Vec<String>>>,
    pub(super) applied_events: Option<WithPosition<AppliedEvents>>,
    pub(super) failure_policies: Option<WithPosition<Vec<FailurePolicy>>>,
    pub(super) limits: LimitCaps,
    pub(super) allow: Option<WithPosition<Allow>>,
    pub(super) rules: Vec<WithPosition<Rule>>,
    pub(super) denied_digests: Vec<WithPosition<Sha256>>,
}

/// The section `limits`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitCaps {
    pub(super) deadline: Option<WithPosition<DurationValue>>,
    pub(super) memory: Option<WithPosition<SizeValue>>,
    pub(super) output: Option<WithPosition<SizeValue>>,
    pub(super) log: Option<WithPosition<SizeValue>>,
}

/// A section `allow`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Allow {
    pub(super) paths: Option<WithPosition<Vec<WithPosition<ConditionedPath>>>>,
    pub(super) dangerous: Option<WithPosition<Vec<WithPosition<Dangerous>>>>,
    pub(super) dirs: Option<WithPosition<Vec<WithPosition<Directory>>>>,
    pub(super) config: Option<WithPosition<Vec<String>>>,
    pub(super) hook_points: Option<WithPosition<Vec<HookPointName>>>,
    pub(super) migration: Option<WithPosition<Vec<MigrationParameter>>>,
    pub(super) pod: Option<WithPosition<Vec<PodPattern>>>,
    pub(super) pod_records: Option<WithPosition<Vec<PodPattern>>>,
}

/// An item of `rules`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rule {
    pub(super) digests: Option<WithPosition<Vec<Sha256>>>,
    pub(super) namespaces: Option<WithPosition<Vec<WithPosition<String>>>>,
    pub(super) keys: Option<WithPosition<Vec<WithPosition<SignerKey>>>>,
    pub(super) allow: Allow,
    /// Whether the rule's hooks run after all others.
    #[serde(rename = "final")]
    pub(super) is_final: Option<WithPosition<bool>>,
}

impl Rule {
    /// The keys, one of which must have signed the module; `None` if the rule requires no signature.
    pub(super) fn signers(&self) -> Option<impl Iterator<Item = &SignerKey>> {
        let keys = self.keys.as_ref()?;
        Some(keys.get().iter().map(WithPosition::get))
    }

    /// The position of `final: true`, if the rule has it.
    pub(super) fn final_position(&self) -> Option<YamlPosition> {
        let is_final = self.is_final.as_ref().filter(|is_final| *is_final.get())?;
        Some(is_final.position())
    }

    /// The digests that the rule lists; empty if the rule applies to all.
    pub(super) fn digests(&self) -> &[Sha256] {
        self.digests.as_ref().map_or(&[], |list| list.get())
    }

    /// The namespaces that the rule lists; empty if the rule applies in all.
    pub(super) fn namespaces(&self) -> &[WithPosition<String>] {
        self.namespaces.as_ref().map_or(&[], |list| list.get())
    }

    /// Whether the rule names a module by its digest and namespace.
    fn names(&self, digest: &str, namespace: &str) -> bool {
        let mut digests = self.digests().iter();
        (self.digests.is_none() || digests.any(|known| known.0 == digest))
            && self.applies_in(namespace)
    }

    /// Whether the rule names modules in this namespace.
    fn applies_in(&self, namespace: &str) -> bool {
        let mut namespaces = self.namespaces().iter();
        self.namespaces.is_none() || namespaces.any(|known| known.get() == namespace)
    }

    /// The key and position of a list that exists and is empty, if any.
    fn empty_list(&self) -> Option<(&'static str, YamlPosition)> {
        let digests = self.digests.as_ref().filter(|list| list.get().is_empty());
        let namespaces = self.namespaces.as_ref();
        let namespaces = namespaces.filter(|list| list.get().is_empty());
        let digests = digests.map(|list| ("digests", list.position()));
        digests.or_else(|| Some(("namespaces", namespaces?.position())))
    }
}

/// Maximum number of keys of a rule: a signature is verified with each of them.
const MAX_KEYS: usize = 32;
/// Maximum length of a namespace's name.
const MAX_NAMESPACE_LENGTH: usize = 63;

/// Whether Kubernetes accepts a namespace of this name.
fn is_namespace_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_invalid_length = name.is_empty() || name.len() > MAX_NAMESPACE_LENGTH;
    !has_invalid_length
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

impl OperatorPolicy {
    /// Refuses a policy with values out of range, with contradictions, or with lines that would have no effect.
    fn check(&self) -> Result<(), PolicyError> {
        self.check_ceilings()?;
        self.check_paths()?;
        self.check_rules()?;
        self.check_arrival()?;
        self.check_fail_allowed()
    }

    fn error_at(&self, position: YamlPosition, reason: impl Into<String>) -> PolicyError {
        PolicyError::at(&self.path, position, reason)
    }

    fn check_ceilings(&self) -> Result<(), PolicyError> {
        let limits = &self.content.limits;
        if let Some(deadline) = &limits.deadline
            && !(Duration::from_millis(1)..=MAX_DEADLINE).contains(&deadline.get().0)
        {
            let reason = format!("a deadline is from 1ms to {MAX_DEADLINE:?}");
            return Err(self.error_at(deadline.position(), reason));
        }
        for (name, value, min, max) in [
            ("memory", &limits.memory, MIN_MEMORY, MAX_MEMORY),
            ("output", &limits.output, MIN_OUTPUT, MAX_OUTPUT),
            ("log", &limits.log, 0, MAX_LOG),
        ] {
            if let Some(value) = value
                && !(min..=max).contains(&value.get().0)
            {
                let size = value.get().0;
                let reason = format!("{name} is from {min} to {max} bytes, not {size}");
                return Err(self.error_at(value.position(), reason));
            }
        }
        Ok(())
    }

    /// All `allow` sections.
    fn allows(&self) -> impl Iterator<Item = &Allow> {
        let top = self.content.allow.iter().map(WithPosition::get);
        top.chain(self.content.rules.iter().map(|rule| &rule.get().allow))
    }

    /// Refuses paths in a list in which they have no effect.
    fn check_paths(&self) -> Result<(), PolicyError> {
        for allow in self.allows() {
            for path in allow.paths.iter().flat_map(WithPosition::get) {
                if let [kind, ..] = kinds_named(&path.get().pattern, false)[..] {
                    let reason = format!(
                        "{} is of the dangerous set ({}), which only `dangerous` grants",
                        path.get().path(),
                        kind.name()
                    );
                    return Err(self.error_at(path.position(), reason));
                }
            }
            for path in allow.dangerous.iter().flat_map(WithPosition::get) {
                if let Dangerous::Path(granted) = path.get()
                    && kinds_named(&granted.pattern, true).is_empty()
                {
                    let pattern = granted.path();
                    let reason = format!(
                        "{pattern} names nothing of the dangerous set, which no wildcard matches: \
                         write out the path, name a kind such as DiskFormat, or move the path to \
                         `paths`"
                    );
                    return Err(self.error_at(path.position(), reason));
                }
            }
        }
        Ok(())
    }

    fn check_rules(&self) -> Result<(), PolicyError> {
        for rule in &self.content.rules {
            if let Some((key, position)) = rule.get().empty_list() {
                let reason = format!(
                    "{key} lists nothing, so the rule would hold for none: list some, or leave the key out to name all"
                );
                return Err(self.error_at(position, reason));
            }
            let has_keys = rule.get().keys.is_some();
            if rule.get().digests.is_none() && rule.get().namespaces.is_none() && !has_keys {
                let reason = "a rule names digests, namespaces or keys; what holds for all other \
                              hooks goes under `allow` at the top";
                return Err(self.error_at(rule.position(), reason));
            }
            if let Some(keys) = &rule.get().keys
                && !(1..=MAX_KEYS).contains(&keys.get().len())
            {
                let reason = format!("a rule has from 1 to {MAX_KEYS} keys");
                return Err(self.error_at(keys.position(), reason));
            }
            if let Some(position) = rule.get().final_position()
                && rule.get().digests.is_none()
                && !has_keys
            {
                let reason = "a final rule names digests or keys: in its namespaces, any module would have the last word";
                return Err(self.error_at(position, reason));
            }
            for namespace in rule.get().namespaces() {
                self.check_namespace(namespace)?;
            }
        }
        let mut rules = self.content.rules.iter();
        match &self.content.digests {
            Some(digests)
                if *digests.get() == Digests::Listed
                    && rules
                        .all(|rule| rule.get().digests.is_none() && rule.get().keys.is_none()) =>
            {
                let reason = "digests are to be listed, and no rule lists any or has keys: no \
                              module could run";
                Err(self.error_at(digests.position(), reason))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a name that no namespace can have: its rule would never apply, and so would not narrow anything.
    fn check_namespace(&self, namespace: &WithPosition<String>) -> Result<(), PolicyError> {
        let name = namespace.get().as_str();
        let reason = match name {
            "" => {
                "a rule names the namespace \"\", which stands for one that is not known".to_owned()
            }
            name if is_namespace_name(name) => return Ok(()),
            name => format!(
                "{:?} is not a name of a namespace (a-z, 0-9 and -, at most {MAX_NAMESPACE_LENGTH} characters): \
                 a rule lists each namespace, there are no patterns",
                printable(name, MAX_NAMESPACE_LENGTH)
            ),
        };
        Err(self.error_at(namespace.position(), reason))
    }

    fn check_fail_allowed(&self) -> Result<(), PolicyError> {
        match &self.content.failure_policies {
            Some(policies) if !policies.get().contains(&FailurePolicy::Fail) => {
                let reason = "Fail is what hooks have that say nothing; it cannot be forbidden";
                Err(self.error_at(policies.position(), reason))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
