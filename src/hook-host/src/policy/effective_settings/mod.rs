//! Resolves a module's wishes, `hook.yaml` and the operator's policy to the hook's settings: a pure
//! function.
//!
//! One file per concern: the module's digest ([`digest`]), hook points, priorities and failure policy
//! ([`subscriptions`]), limits ([`limits`]), configuration, directories and parameters of a migration
//! ([`config_and_dirs`]), facts about the pod ([`pod_facts`]), and the domain paths that the hook may
//! change ([`domain_paths`]). Which rules hold depends on the module's signature ([`signature`]).

mod applicable_rules;
mod config_and_dirs;
mod digest;
mod domain_paths;
mod failure_policy;
mod limits;
mod migration_parameters;
mod pod_facts;
mod subscriptions;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::domain_grant::Grant;
use super::hook_yaml::HookYaml;
use super::known_paths::UnknownPath;
use super::module_signature::ModuleSignature;
use super::operator_policy::{Allow, OperatorPolicy, Sidecars};
use super::strict_yaml::{PolicyError, YamlPosition};
use super::yaml_values::Located;
use crate::description::{Description, Subscription};
use crate::pod_facts::PodGrant;
use crate::{FailurePolicy, Limits, MigrationParameter};

/// The module whose settings are resolved.
#[derive(Debug, Clone, Copy)]
pub struct ModuleIdentity<'a> {
    /// The sha256 of the module in lower-case hexadecimal.
    pub digest: &'a str,
    /// The virtual machine's namespace; empty if unknown.
    pub namespace: &'a str,
    /// The result of verifying its signature with the keys of the policy.
    pub signature: &'a ModuleSignature,
    /// The module's description.
    pub description: &'a Description,
}

/// How a hook is run, and what it may do.
#[derive(Debug, Clone)]
pub struct EffectiveSettings {
    /// Hook points and priorities.
    pub hook_points: Vec<Subscription>,
    /// What a failure of the hook means.
    pub failure_policy: FailurePolicy,
    /// Limits of a call.
    pub limits: Limits,
    /// The configuration that the hook reads.
    pub config: BTreeMap<String, String>,
    /// Directories that the hook may read.
    pub dirs: Vec<PathBuf>,
    /// The directories of the operator's policy, beneath which those of the hook stay.
    pub dir_roots: Vec<PathBuf>,
    /// Parameters of a migration that the hook may change.
    pub migration: BTreeSet<MigrationParameter>,
    /// Facts about the pod that the hook may read.
    pub(crate) pod: Arc<PodGrant>,
    pub(crate) grant: Grant,
}

/// Why a hook may not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// A line of `hook.yaml` does not fit the module or the operator's policy.
    #[error(transparent)]
    Line(#[from] PolicyError),
    /// The module's digest is not the pinned one.
    #[error("{place}: the module has the sha256 {found}, not {expected}")]
    Digest {
        /// The pin's file, line and column.
        place: String,
        /// The pinned digest.
        expected: String,
        /// The module's digest.
        found: String,
    },
    /// The operator's policy requires a known digest.
    #[error("{place}: modules run only when {wanted}; this one has the sha256 {digest}")]
    UnknownDigest {
        /// The policy's file, line and column.
        place: String,
        /// Where the digest would have to stand.
        wanted: &'static str,
        /// What the module has.
        digest: String,
    },
    /// The operator's policy requires a signature.
    #[error(
        "{place}: modules that this rule names run only if one of its keys signed them: {reason}"
    )]
    NotSigned {
        /// The position of the rule's keys.
        place: String,
        /// Why the module counts as unsigned.
        reason: String,
    },
    /// The operator forbids gRPC sidecars.
    #[error("{place}: gRPC sidecars are forbidden")]
    Sidecar {
        /// The policy's file, line and column.
        place: String,
    },
    /// The module declares a wish that is not granted.
    #[error("it wants the {what} {wish:?}, {}", not_granted(wish, origin))]
    NotGranted {
        /// `path`, `directory`, `configuration key`, `hook point` or `parameter of a migration`.
        what: &'static str,
        /// The wish.
        wish: String,
        /// The list that would have to contain it.
        origin: String,
    },
}

/// What is to be done about a wish. A misspelt path is not for a policy to allow.
fn not_granted(wish: &str, origin: &str) -> String {
    let unknown = Some(wish).filter(|wish| wish.starts_with("/domain"));
    match unknown.and_then(UnknownPath::of) {
        None => format!("which {origin} does not allow: add it there"),
        Some(unknown) => {
            format!("and {unknown} If the path is right, add it to {origin}")
        }
    }
}

impl ResolveError {
    /// Whether the module may not run, or not with what it declares; otherwise a file is wrong.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::UnknownDigest { .. }
            | Self::NotSigned { .. }
            | Self::Sidecar { .. }
            | Self::NotGranted { .. } => true,
            Self::Line(_) | Self::Digest { .. } => false,
        }
    }
}

/// Resolves the settings of a module.
pub(crate) fn resolve(
    identity: ModuleIdentity<'_>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<EffectiveSettings, ResolveError> {
    let resolver = Resolver::of_module(identity, yaml, operator)?;
    resolver.digest()?;
    Ok(EffectiveSettings {
        hook_points: resolver.hook_points()?,
        failure_policy: resolver.failure_policy()?,
        limits: resolver.limits(base)?,
        config: resolver.config()?,
        dirs: resolver.dirs()?,
        dir_roots: resolver.dir_roots(),
        migration: resolver.migration()?,
        pod: Arc::new(resolver.pod()),
        grant: resolver.grant()?,
    })
}

/// Whether a module may be compiled and asked for its description, which is not looked at.
pub(crate) fn admit(
    identity: ModuleIdentity<'_>,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<(), ResolveError> {
    Resolver::of_module(identity, yaml, operator)?.digest()
}

/// Resolves the settings of a gRPC sidecar, which runs unrestricted or not at all.
pub(crate) fn resolve_sidecar(
    hook_points: Vec<Subscription>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<EffectiveSettings, ResolveError> {
    if let Some(operator) = operator
        && let Some(sidecars) = &operator.content.sidecars
        && *sidecars.get() == Sidecars::Forbid
    {
        return Err(ResolveError::Sidecar {
            place: operator.at(sidecars.position()),
        });
    }
    if let Some((yaml, (key, place))) =
        yaml.and_then(|yaml| Some((yaml, yaml.first_module_only_key()?)))
    {
        let reason = format!("{key} is for modules: a gRPC sidecar cannot be restricted");
        return Err(yaml.wrong(place, reason).into());
    }
    let description = Description {
        hook_points,
        ..Description::default()
    };
    let resolver = Resolver {
        identity: ModuleIdentity {
            digest: "",
            namespace: "",
            signature: &ModuleSignature::default(),
            description: &description,
        },
        yaml,
        operator,
        rules: Vec::new(),
        is_signed: false,
        is_capped: false,
    };
    Ok(EffectiveSettings {
        hook_points: resolver.hook_points()?,
        failure_policy: resolver.failure_policy()?,
        limits: base.clone(),
        config: BTreeMap::new(),
        dirs: Vec::new(),
        dir_roots: Vec::new(),
        migration: BTreeSet::new(),
        pod: Arc::default(),
        grant: Grant::unlimited(),
    })
}

/// All inputs about one hook.
struct Resolver<'a> {
    identity: ModuleIdentity<'a>,
    yaml: Option<&'a HookYaml>,
    operator: Option<&'a OperatorPolicy>,
    /// The `allow` sections of the operator's rules that name the module.
    rules: Vec<&'a Allow>,
    /// Whether a key of a rule that holds signed the module.
    is_signed: bool,
    /// Whether the operator's lists apply. They cannot be enforced on a gRPC sidecar.
    is_capped: bool,
}

/// A list of allowed values.
struct AllowList<'a, T> {
    values: Vec<&'a T>,
    /// The list's position, for errors.
    origin: String,
}

impl<'a> Resolver<'a> {
    fn of_module(
        identity: ModuleIdentity<'a>,
        yaml: Option<&'a HookYaml>,
        operator: Option<&'a OperatorPolicy>,
    ) -> Result<Self, ResolveError> {
        let rules = operator.map(|policy| applicable_rules::applicable_rules(policy, &identity));
        let rules = rules.transpose()?.unwrap_or_default();
        Ok(Self {
            identity,
            yaml,
            operator,
            rules: rules.iter().map(|rule| &rule.allow).collect(),
            is_signed: rules.iter().any(|rule| rule.keys.is_some()),
            is_capped: true,
        })
    }

    /// The operator's list of one kind: the lists of all rules that name the hook together; if none
    /// of them has one, the list of the top-level `allow`. `None` if the policy has no such list.
    fn operator_list<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a Located<Vec<T>>>,
    ) -> Option<AllowList<'a, T>> {
        let operator = self.operator.filter(|_| self.is_capped)?;
        let mut lists: Vec<_> = self.rules.iter().filter_map(|allow| list(allow)).collect();
        if lists.is_empty() {
            lists.extend(
                operator
                    .content
                    .allow
                    .as_ref()
                    .and_then(|top| list(top.get())),
            );
        }
        let places: Vec<String> = lists
            .iter()
            .map(|list| operator.at(list.position()))
            .collect();
        (!lists.is_empty()).then(|| AllowList {
            values: lists.into_iter().flat_map(|list| list.get()).collect(),
            origin: format!("{name} of {}", places.join(" or ")),
        })
    }

    /// Like [`Self::operator_list`], for things that are denied unless the operator allows them.
    fn required_operator_list<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a Located<Vec<T>>>,
    ) -> AllowList<'a, T> {
        self.operator_list(name, list).unwrap_or_else(|| {
            let policy = self.operator.map(|operator| operator.path.display());
            let none =
                || "there is none: --hook-policy of a launcher or --policy of virt-hook names one";
            let place = policy.map_or_else(|| none().to_owned(), |path| path.to_string());
            AllowList {
                values: Vec::new(),
                origin: format!("{name} of the operator's policy ({place})"),
            }
        })
    }

    fn hook_yaml(&self) -> String {
        self.yaml.map_or_else(
            || "a hook.yaml beside the module (there is none)".to_owned(),
            |yaml| yaml.path.display().to_string(),
        )
    }
}

impl<T> AllowList<'_, T> {
    fn refuses(&self, what: &'static str, wish: &str) -> ResolveError {
        ResolveError::NotGranted {
            what,
            wish: wish.to_owned(),
            origin: self.origin.clone(),
        }
    }
}

fn at(yaml: &HookYaml, place: YamlPosition) -> String {
    format!("{}:{}:{}", yaml.path.display(), place.line, place.column)
}
