//! The operator's policy, which is the security boundary.

mod checks;
mod content;
mod summary;
#[cfg(test)]
mod tests;

use content::Content;
pub use content::{Allow, Digests};
pub(super) use content::{Rule, Sidecars};
pub use summary::{PolicySummary, PolicyWarning};

use std::path::{Path, PathBuf};
use std::time::Duration;

use sigstore_bundle::PublicKey;

use super::policy_error::{PolicyError, YamlPosition};
use super::policy_file;
use super::strict_yaml;
use super::yaml_values::{SizeValue, WithPosition};
use crate::Limits;
use content::AppliedEvents;

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
