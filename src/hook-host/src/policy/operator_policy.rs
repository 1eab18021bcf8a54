//! The operator's policy: the security boundary.

mod summary;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use summary::{PolicySummary, PolicyWarning};

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use sigstore_bundle::PublicKey;

use super::dangerous_patterns::kinds_named;
use super::hook_yaml::{
    MAX_DEADLINE, MAX_LOG, MAX_MEMORY, MAX_OUTPUT, MIN_MEMORY, MIN_OUTPUT, Point,
};
use super::read_policy_file;
use super::strict_yaml::{self, PolicyError, YamlPosition};
use super::yaml_values::{
    Dangerous, Directory, DurationValue, Located, Pattern, Sha256, SignerKey, SizeValue,
};
use crate::printable::printable;
use crate::{FailurePolicy, Limits as CallLimits, MigrationParameter, PodPattern};

/// The most keys of a rule: a signature is verified with each.
const MAX_KEYS: usize = 32;

/// The longest name of a namespace.
const MAX_DNS_LABEL: usize = 63;

/// Whether Kubernetes accepts this name of a namespace.
fn is_dns_label(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_long = name.is_empty() || name.len() > MAX_DNS_LABEL;
    !is_long && name.bytes().all(fits) && !name.starts_with('-') && !name.ends_with('-')
}

/// Which modules may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Digests {
    /// Any module.
    #[default]
    Any,
    /// Modules whose digest is in their `hook.yaml` or in a rule that applies in the VM's namespace, or that a key of such a
    /// rule signed.
    Pinned,
    /// Modules whose digest is in a rule that applies in the VM's namespace, or that a key of such a rule signed.
    Listed,
}

/// Whether gRPC sidecars may run: they are arbitrary code, recorded and never restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Sidecars {
    #[default]
    Allow,
    Forbid,
}

/// Whether a Kubernetes event names each hook that was applied to a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum AppliedEvents {
    #[default]
    Publish,
    Omit,
}

/// The operator's policy. All keys are optional; an empty policy caps nothing and grants nothing
/// of the dangerous set.
///
/// ```yaml
/// digests: Pinned             # Any (default) | Pinned | Listed
/// sidecars: Allow             # Allow (default) | Forbid: gRPC sidecars
/// sidecarsOnArrival: [shim]   # sidecars and plugins that also edit a domain which arrives by a migration
/// appliedEvents: Omit         # Publish (default) | Omit: a Kubernetes event per hook and boot
/// failurePolicies: [Fail]     # what hook.yaml may say; default all of Fail, Ignore, DryRun
/// limits:                     # the most that hook.yaml may set, and that any module gets
///   deadline: 1s
///   memory: 32Mi
///   output: 4Mi
///   log: 64Ki
/// allow:                      # what is left out is not capped, but for dangerous, dirs and pod
///   paths: ["/domain/sysinfo/**", "/domain/os/smbios/**"]
///   dangerous: []             # of the dangerous set; nothing unless it stands here
///   dirs: []                  # no directory unless it stands here
///   config: [manufacturer]
///   hookPoints: [OnDefineDomain]
///   migration: [bandwidth]    # the parameters of a migration that hooks may change
///   pod: [network-info]       # facts about the pod; none unless it stands here
///   podRecords: []            # facts that records keep; none unless it stands here
/// rules:                      # a list of a rule stands instead of the one above, for whom it names
///   - digests: [2c26...]      # one or both; both must hold
///     namespaces: [infra]
///     keys: ["-----BEGIN PUBLIC KEY-----..."] # whom it names runs only with a signature by one of them
///     allow:
///       dangerous: ["/domain/devices/interface/script/@path"]
/// ```
#[derive(Debug, Clone)]
pub struct OperatorPolicy {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Content {
    pub(super) digests: Option<Located<Digests>>,
    pub(super) sidecars: Option<Located<Sidecars>>,
    pub(super) sidecars_on_arrival: Option<Located<Vec<String>>>,
    pub(super) applied_events: Option<Located<AppliedEvents>>,
    pub(super) failure_policies: Option<Located<Vec<FailurePolicy>>>,
    pub(super) limits: Limits,
    pub(super) allow: Option<Located<Allow>>,
    pub(super) rules: Vec<Located<Rule>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    pub(super) deadline: Option<Located<DurationValue>>,
    pub(super) memory: Option<Located<SizeValue>>,
    pub(super) output: Option<Located<SizeValue>>,
    pub(super) log: Option<Located<SizeValue>>,
}

/// What hooks may do.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Allow {
    pub(super) paths: Option<Located<Vec<Located<Pattern>>>>,
    pub(super) dangerous: Option<Located<Vec<Located<Dangerous>>>>,
    pub(super) dirs: Option<Located<Vec<Located<Directory>>>>,
    pub(super) config: Option<Located<Vec<String>>>,
    pub(super) hook_points: Option<Located<Vec<Point>>>,
    pub(super) migration: Option<Located<Vec<MigrationParameter>>>,
    pub(super) pod: Option<Located<Vec<PodPattern>>>,
    pub(super) pod_records: Option<Located<Vec<PodPattern>>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rule {
    pub(super) digests: Option<Located<Vec<Sha256>>>,
    pub(super) namespaces: Option<Located<Vec<Located<String>>>>,
    pub(super) keys: Option<Located<Vec<Located<SignerKey>>>>,
    pub(super) allow: Allow,
}

impl Rule {
    /// The keys of which one has to have signed the module; `None` if the rule asks for no signature.
    pub(super) fn signers(&self) -> Option<impl Iterator<Item = &PublicKey>> {
        let keys = self.keys.as_ref()?;
        Some(keys.get().iter().map(|key| &key.get().0))
    }

    /// The digests that the rule lists; none if it holds for any.
    pub(super) fn digests(&self) -> &[Sha256] {
        self.digests.as_ref().map_or(&[], |list| list.get())
    }

    /// The namespaces that the rule lists; none if it holds for any.
    pub(super) fn namespaces(&self) -> &[Located<String>] {
        self.namespaces.as_ref().map_or(&[], |list| list.get())
    }

    fn names(&self, digest: &str, namespace: &str) -> bool {
        let mut digests = self.digests().iter();
        let mut namespaces = self.namespaces().iter();
        (self.digests.is_none() || digests.any(|known| known.0 == digest))
            && (self.namespaces.is_none() || namespaces.any(|known| known.get() == namespace))
    }

    /// The place of a list that is there and empty, with its key.
    fn empty_list(&self) -> Option<(&'static str, YamlPosition)> {
        let digests = self.digests.as_ref().filter(|list| list.get().is_empty());
        let namespaces = self.namespaces.as_ref();
        let namespaces = namespaces.filter(|list| list.get().is_empty());
        let digests = digests.map(|list| ("digests", list.position()));
        digests.or_else(|| Some(("namespaces", namespaces?.position())))
    }
}

/// The shortest deadline of `describe`.
const MIN_DESCRIBE_DEADLINE: Duration = Duration::from_millis(500);

impl OperatorPolicy {
    /// Parses the text of a policy. Errors name the file `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, PolicyError> {
        let policy = Self {
            path: path.to_owned(),
            content: strict_yaml::parse(path, text)?,
        };
        policy.check_ceilings()?;
        policy.check_paths()?;
        policy.check_rules()?;
        policy.check_arrival()?;
        policy.check_fail_allowed()?;
        Ok(policy)
    }

    /// Reads the policy, if there is one.
    pub fn read(source: &PolicySource) -> Result<Option<Self>, PolicyError> {
        let (path, required) = match source {
            PolicySource::None => return Ok(None),
            PolicySource::IfPresent(path) => (path, false),
            PolicySource::File(path) => (path, true),
        };
        match read_policy_file::text_at(path)? {
            Some(text) => Self::parse(path, &text).map(Some),
            None if required => Err(PolicyError::Read {
                path: path.clone(),
                reason: "there is no such file".to_owned(),
            }),
            None => Ok(None),
        }
    }

    /// Whether a Kubernetes event names each hook that was applied to a VM.
    pub(crate) fn publishes_applied_events(&self) -> bool {
        let events = self.content.applied_events.as_ref().map(Located::get);
        events.is_none_or(|events| *events == AppliedEvents::Publish)
    }

    /// Limits of calls before a module's settings are resolved: of `describe`. A short deadline is meant for hook points:
    /// `describe` runs once, beside the compilation of other modules.
    pub(crate) fn cap(&self, limits: &CallLimits) -> CallLimits {
        let caps = &self.content.limits;
        let size = |cap: &Option<Located<SizeValue>>, own: usize| match cap {
            Some(cap) => own.min(cap.get().0),
            None => own,
        };
        let deadline = caps.deadline.as_ref();
        let deadline = deadline.map(|cap| cap.get().0.max(MIN_DESCRIBE_DEADLINE));
        CallLimits {
            call_deadline: deadline
                .map_or(limits.call_deadline, |cap| limits.call_deadline.min(cap)),
            memory: size(&caps.memory, limits.memory),
            output: size(&caps.output, limits.output),
            log: size(&caps.log, limits.log),
            ..limits.clone()
        }
    }

    /// The place of the limit of memory, if it is lower than `own`.
    #[must_use]
    pub fn lower_memory(&self, own: usize) -> Option<String> {
        let cap = self.content.limits.memory.as_ref();
        let cap = cap.filter(|cap| cap.get().0 < own)?;
        Some(self.at(cap.position()))
    }

    /// Whether a module's settings may depend on the namespace.
    #[must_use]
    pub fn names_namespaces(&self) -> bool {
        let mut rules = self.content.rules.iter();
        rules.any(|rule| rule.get().namespaces.is_some())
    }

    /// The rules that name a hook by its digest and namespace.
    pub(super) fn rules(&self, digest: &str, namespace: &str) -> Vec<&Rule> {
        let rules = self.content.rules.iter().map(Located::get);
        rules.filter(|rule| rule.names(digest, namespace)).collect()
    }

    /// The keys of the rules that name a hook by its digest and namespace.
    pub(crate) fn signers(&self, digest: &str, namespace: &str) -> Vec<&PublicKey> {
        let rules = self.rules(digest, namespace).into_iter();
        rules.filter_map(Rule::signers).flatten().collect()
    }

    /// Whether a rule that lists this digest applies in the namespace.
    pub(super) fn lists(&self, digest: &str, namespace: &str) -> bool {
        let rules = self.rules(digest, namespace);
        rules.iter().any(|rule| rule.digests.is_some())
    }

    pub(super) fn at(&self, place: YamlPosition) -> String {
        format!("{}:{}:{}", self.path.display(), place.line, place.column)
    }

    fn wrong(&self, place: YamlPosition, reason: impl Into<String>) -> PolicyError {
        PolicyError::at(&self.path, place, reason)
    }

    fn check_ceilings(&self) -> Result<(), PolicyError> {
        let limits = &self.content.limits;
        if let Some(deadline) = &limits.deadline
            && !(Duration::from_millis(1)..=MAX_DEADLINE).contains(&deadline.get().0)
        {
            let reason = format!("a deadline is from 1ms to {MAX_DEADLINE:?}");
            return Err(self.wrong(deadline.position(), reason));
        }
        for (name, value, least, most) in [
            ("memory", &limits.memory, MIN_MEMORY, MAX_MEMORY),
            ("output", &limits.output, MIN_OUTPUT, MAX_OUTPUT),
            ("log", &limits.log, 0, MAX_LOG),
        ] {
            if let Some(value) = value
                && !(least..=most).contains(&value.get().0)
            {
                let size = value.get().0;
                let reason = format!("{name} is from {least} to {most} bytes, not {size}");
                return Err(self.wrong(value.position(), reason));
            }
        }
        Ok(())
    }

    /// All `allow` sections.
    fn allows(&self) -> impl Iterator<Item = &Allow> {
        let top = self.content.allow.iter().map(Located::get);
        top.chain(self.content.rules.iter().map(|rule| &rule.get().allow))
    }

    /// Refuses paths that stand in the list where they grant nothing.
    fn check_paths(&self) -> Result<(), PolicyError> {
        for allow in self.allows() {
            for path in allow.paths.iter().flat_map(Located::get) {
                if let [kind, ..] = kinds_named(&path.get().0, false)[..] {
                    let reason = format!(
                        "{} is of the dangerous set ({}), which only `dangerous` grants",
                        path.get().0,
                        kind.name()
                    );
                    return Err(self.wrong(path.position(), reason));
                }
            }
            for path in allow.dangerous.iter().flat_map(Located::get) {
                if let Dangerous::Path(pattern) = path.get()
                    && kinds_named(pattern, true).is_empty()
                {
                    let reason = format!(
                        "{pattern} names nothing of the dangerous set, which no wildcard matches: \
                         write out the path, name a class such as DiskFormat, or move the path to \
                         `paths`"
                    );
                    return Err(self.wrong(path.position(), reason));
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
                return Err(self.wrong(position, reason));
            }
            let has_keys = rule.get().keys.is_some();
            if rule.get().digests.is_none() && rule.get().namespaces.is_none() && !has_keys {
                let reason = "a rule names digests, namespaces or keys; what holds for all other \
                              hooks goes under `allow` at the top";
                return Err(self.wrong(rule.position(), reason));
            }
            if let Some(keys) = &rule.get().keys
                && !(1..=MAX_KEYS).contains(&keys.get().len())
            {
                let reason = format!("a rule has from 1 to {MAX_KEYS} keys");
                return Err(self.wrong(keys.position(), reason));
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
                Err(self.wrong(digests.position(), reason))
            }
            _ => Ok(()),
        }
    }

    /// A name that no namespace has would make a rule that never applies, and so narrows nothing.
    fn check_namespace(&self, namespace: &Located<String>) -> Result<(), PolicyError> {
        let name = namespace.get().as_str();
        let reason = match name {
            "" => {
                "a rule names the namespace \"\", which stands for one that is not known".to_owned()
            }
            name if is_dns_label(name) => return Ok(()),
            name => format!(
                "{:?} is not a name of a namespace (a-z, 0-9 and -, at most {MAX_DNS_LABEL} characters): a rule lists \
                 each namespace, there are no patterns",
                printable(name, MAX_DNS_LABEL)
            ),
        };
        Err(self.wrong(namespace.position(), reason))
    }

    fn check_fail_allowed(&self) -> Result<(), PolicyError> {
        match &self.content.failure_policies {
            Some(policies) if !policies.get().contains(&FailurePolicy::Fail) => {
                let reason = "Fail is what hooks have that say nothing; it cannot be forbidden";
                Err(self.wrong(policies.position(), reason))
            }
            _ => Ok(()),
        }
    }
}

/// The location of the operator's policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PolicySource {
    /// There is no policy.
    #[default]
    None,
    /// In this file if it exists: for a default path.
    IfPresent(PathBuf),
    /// In this file, which must exist.
    File(PathBuf),
}
