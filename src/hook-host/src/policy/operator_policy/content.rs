//! The keys of the operator's policy.

use serde::Deserialize;

use crate::policy::hook_yaml::HookPointName;
use crate::policy::policy_error::YamlPosition;
use crate::policy::yaml_values::{
    Dangerous, Directory, DurationValue, Sha256, SignerKey, SizeValue, WithPosition,
};
use crate::{ConditionedPath, FailurePolicy, MigrationParameter, PodPattern};

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
pub(in crate::policy) enum Sidecars {
    #[default]
    Allow,
    Forbid,
}

/// Whether a Kubernetes event is published for each hook that was applied to a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(in crate::policy) enum AppliedEvents {
    #[default]
    Publish,
    Omit,
}

/// The content of a policy. [`super::OperatorPolicy`] documents the keys.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(in crate::policy) struct Content {
    pub(in crate::policy) digests: Option<WithPosition<Digests>>,
    pub(in crate::policy) sidecars: Option<WithPosition<Sidecars>>,
    pub(in crate::policy) sidecars_on_arrival: Option<WithPosition<Vec<String>>>,
    pub(in crate::policy) applied_events: Option<WithPosition<AppliedEvents>>,
    pub(in crate::policy) failure_policies: Option<WithPosition<Vec<FailurePolicy>>>,
    pub(in crate::policy) limits: LimitCaps,
    pub(in crate::policy) allow: Option<WithPosition<Allow>>,
    pub(in crate::policy) rules: Vec<WithPosition<Rule>>,
    pub(in crate::policy) denied_digests: Vec<WithPosition<Sha256>>,
}

/// The section `limits`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct LimitCaps {
    pub(in crate::policy) deadline: Option<WithPosition<DurationValue>>,
    pub(in crate::policy) memory: Option<WithPosition<SizeValue>>,
    pub(in crate::policy) output: Option<WithPosition<SizeValue>>,
    pub(in crate::policy) log: Option<WithPosition<SizeValue>>,
}

/// A section `allow`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Allow {
    pub(in crate::policy) paths: Option<WithPosition<Vec<WithPosition<ConditionedPath>>>>,
    pub(in crate::policy) dangerous: Option<WithPosition<Vec<WithPosition<Dangerous>>>>,
    pub(in crate::policy) dirs: Option<WithPosition<Vec<WithPosition<Directory>>>>,
    pub(in crate::policy) config: Option<WithPosition<Vec<String>>>,
    pub(in crate::policy) hook_points: Option<WithPosition<Vec<HookPointName>>>,
    pub(in crate::policy) migration: Option<WithPosition<Vec<MigrationParameter>>>,
    pub(in crate::policy) pod: Option<WithPosition<Vec<PodPattern>>>,
    pub(in crate::policy) pod_records: Option<WithPosition<Vec<PodPattern>>>,
}

/// An item of `rules`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::policy) struct Rule {
    pub(in crate::policy) digests: Option<WithPosition<Vec<Sha256>>>,
    pub(in crate::policy) namespaces: Option<WithPosition<Vec<WithPosition<String>>>>,
    pub(in crate::policy) keys: Option<WithPosition<Vec<WithPosition<SignerKey>>>>,
    pub(in crate::policy) allow: Allow,
    /// Whether the rule's hooks run after all others.
    #[serde(rename = "final")]
    pub(in crate::policy) is_final: Option<WithPosition<bool>>,
}

impl Rule {
    /// The keys, one of which must have signed the module; `None` if the rule requires no signature.
    pub(in crate::policy) fn signers(&self) -> Option<impl Iterator<Item = &SignerKey>> {
        let keys = self.keys.as_ref()?;
        Some(keys.get().iter().map(WithPosition::get))
    }

    /// The position of `final: true`, if the rule has it.
    pub(in crate::policy) fn final_position(&self) -> Option<YamlPosition> {
        let is_final = self.is_final.as_ref().filter(|is_final| *is_final.get())?;
        Some(is_final.position())
    }

    /// The digests that the rule lists; empty if the rule applies to all.
    pub(in crate::policy) fn digests(&self) -> &[Sha256] {
        self.digests.as_ref().map_or(&[], |list| list.get())
    }

    /// The namespaces that the rule lists; empty if the rule applies in all.
    pub(in crate::policy) fn namespaces(&self) -> &[WithPosition<String>] {
        self.namespaces.as_ref().map_or(&[], |list| list.get())
    }

    /// Whether the rule names a module by its digest and namespace.
    pub(super) fn names(&self, digest: &str, namespace: &str) -> bool {
        let mut digests = self.digests().iter();
        (self.digests.is_none() || digests.any(|known| known.0 == digest))
            && self.applies_in(namespace)
    }

    /// Whether the rule names modules in this namespace.
    pub(super) fn applies_in(&self, namespace: &str) -> bool {
        let mut namespaces = self.namespaces().iter();
        self.namespaces.is_none() || namespaces.any(|known| known.get() == namespace)
    }

    /// The key and position of a list that exists and is empty, if any.
    pub(super) fn empty_list(&self) -> Option<(&'static str, YamlPosition)> {
        let digests = self.digests.as_ref().filter(|list| list.get().is_empty());
        let namespaces = self.namespaces.as_ref();
        let namespaces = namespaces.filter(|list| list.get().is_empty());
        let digests = digests.map(|list| ("digests", list.position()));
        digests.or_else(|| Some(("namespaces", namespaces?.position())))
    }
}
