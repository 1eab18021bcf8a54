//! Resolves a module's wishes, `hook.yaml` and the operator's policy to the hook's settings: a pure
//! function.
//!
//! One file per setting: the check of the module's digest ([`digest_check`]), hook points and priorities
//! ([`subscriptions`]), failure policy ([`failure_policy`]), limits ([`limits`]), configuration and
//! directories ([`config_and_dirs`]), parameters of a migration ([`migration_parameters`]), facts about the
//! pod ([`pod_facts`]), what a `hook.yaml` may say about a final hook ([`final_hook_yaml`]), and the domain paths that
//! the hook may change ([`domain_paths`]). The rules of the operator's policy that apply depend on the module's signature
//! ([`applicable_rules`]).

mod applicable_rules;
mod config_and_dirs;
mod digest_check;
mod domain_paths;
mod failure_policy;
mod final_hook_yaml;
mod limits;
mod migration_parameters;
mod pod_facts;
mod resolve_error;
mod sidecar_settings;
mod subscriptions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::domain_grant::Grant;
use super::hook_yaml::HookYaml;
use super::module_signature::ModuleSignature;
use super::operator_policy::{Allow, OperatorPolicy};
use super::yaml_values::WithPosition;
use crate::module_description::{Description, Subscription};
use crate::pod_facts::PodGrant;
use crate::{FailurePolicy, Limits, MigrationParameter};

pub use resolve_error::ResolveError;
pub(crate) use sidecar_settings::resolve_sidecar;

/// The module whose settings are resolved.
#[derive(Debug, Clone, Copy)]
pub struct ModuleIdentity<'a> {
    /// The sha256 of the module in lower-case hexadecimal.
    pub digest: &'a str,
    /// The virtual machine's namespace; empty if the namespace is not known.
    pub namespace: &'a str,
    /// The result of verifying the module's signature with the keys of the policy.
    pub signature: &'a ModuleSignature,
    /// The module's description.
    pub description: &'a Description,
}

/// How a hook runs, and what it may do.
#[derive(Debug, Clone)]
pub struct EffectiveSettings {
    /// Hook points and priorities.
    pub hook_points: Vec<Subscription>,
    /// File, line and column of the `final: true` in the operator's policy that makes it a final hook; `None` for others.
    pub final_rule: Option<String>,
    /// How a failure of the hook is handled.
    pub failure_policy: FailurePolicy,
    /// Limits of a call.
    pub limits: Limits,
    /// The configuration that the hook reads.
    pub config: BTreeMap<String, String>,
    /// Directories that the hook may read.
    pub dirs: Vec<PathBuf>,
    /// The directories of the operator's policy. A directory of the hook is opened only below one of them.
    pub dir_roots: Vec<PathBuf>,
    /// Parameters of a migration that the hook may change.
    pub migration: BTreeSet<MigrationParameter>,
    /// Facts about the pod that the hook may read.
    pub(crate) pod: Arc<PodGrant>,
    /// The changes of the domain that the hook may make.
    pub(crate) grant: Grant,
}

/// Resolves the settings of a module.
pub(crate) fn resolve(
    identity: ModuleIdentity<'_>,
    base: &Limits,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<EffectiveSettings, ResolveError> {
    let resolver = Resolver::of_module(identity, yaml, operator)?;
    resolver.check_digest()?;
    resolver.refuse_weakening_keys(base)?;
    Ok(EffectiveSettings {
        hook_points: resolver.hook_points()?,
        final_rule: resolver.final_rule.clone(),
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

/// Checks whether a module may be compiled and asked for its description. The description in `identity` is ignored.
pub(crate) fn admit(
    identity: ModuleIdentity<'_>,
    yaml: Option<&HookYaml>,
    operator: Option<&OperatorPolicy>,
) -> Result<(), ResolveError> {
    Resolver::of_module(identity, yaml, operator)?.check_digest()
}

/// The inputs of the resolution of one hook.
#[derive(Clone)]
struct Resolver<'a> {
    identity: ModuleIdentity<'a>,
    yaml: Option<&'a HookYaml>,
    operator: Option<&'a OperatorPolicy>,
    /// The `allow` sections of the operator's rules that apply to the module.
    rules: Vec<&'a Allow>,
    /// Whether a key of an applicable rule signed the module.
    is_signed: bool,
    /// The position of the `final: true` of an applicable rule.
    final_rule: Option<String>,
    /// Whether the operator's lists apply; they do not apply to gRPC sidecars, on which they cannot be enforced.
    is_restricted: bool,
}

/// A list of allowed values of a policy.
struct AllowList<'a, T> {
    values: Vec<&'a T>,
    /// The name and position of the list, for errors.
    origin: String,
}

impl<'a> Resolver<'a> {
    fn of_module(
        identity: ModuleIdentity<'a>,
        yaml: Option<&'a HookYaml>,
        operator: Option<&'a OperatorPolicy>,
    ) -> Result<Self, ResolveError> {
        if let Some(place) = operator.and_then(|policy| policy.denial(identity.digest)) {
            return Err(ResolveError::Denied {
                place,
                digest: identity.digest.to_owned(),
            });
        }
        let rules = operator.map(|policy| applicable_rules::applicable_rules(policy, &identity));
        let rules = rules.transpose()?.unwrap_or_default();
        Ok(Self {
            identity,
            yaml,
            operator,
            rules: rules.iter().map(|rule| &rule.allow).collect(),
            is_signed: rules.iter().any(|rule| rule.keys.is_some()),
            final_rule: operator.and_then(|policy| {
                let position = rules.iter().find_map(|rule| rule.final_position())?;
                Some(policy.at(position))
            }),
            is_restricted: true,
        })
    }

    /// The operator's list of one name: the lists of all applicable rules together; if none of the rules has
    /// this list, the list of the top-level `allow`. `None` if the policy has no such list.
    fn operator_list<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a WithPosition<Vec<T>>>,
    ) -> Option<AllowList<'a, T>> {
        let operator = self.operator.filter(|_| self.is_restricted)?;
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

    /// Like [`Self::operator_list`], but empty if the policy has no such list: for values that are denied unless the
    /// operator allows them.
    fn required_operator_list<T>(
        &self,
        name: &str,
        list: impl Fn(&'a Allow) -> Option<&'a WithPosition<Vec<T>>>,
    ) -> AllowList<'a, T> {
        self.operator_list(name, list).unwrap_or_else(|| {
            let policy = self.operator.map(|operator| operator.path.display());
            let no_policy =
                || "there is none: --hook-policy of a launcher or --policy of virt-hook names one";
            let place = policy.map_or_else(|| no_policy().to_owned(), |path| path.to_string());
            AllowList {
                values: Vec::new(),
                origin: format!("{name} of the operator's policy ({place})"),
            }
        })
    }

    /// The path of `hook.yaml` for errors.
    fn hook_yaml_place(&self) -> String {
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
