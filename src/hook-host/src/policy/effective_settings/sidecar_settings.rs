//! Resolves the settings of a gRPC sidecar.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{EffectiveSettings, ModuleIdentity, ResolveError, Resolver};
use crate::Limits;
use crate::module_description::{Description, Subscription};
use crate::policy::domain_grant::Grant;
use crate::policy::hook_yaml::HookYaml;
use crate::policy::module_signature::ModuleSignature;
use crate::policy::operator_policy::{OperatorPolicy, Sidecars};

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
    if let Some((yaml, (key, position))) =
        yaml.and_then(|yaml| Some((yaml, yaml.content.first_module_only_key()?)))
    {
        let reason = format!("{key} is for modules: a gRPC sidecar cannot be restricted");
        return Err(yaml.error_at(position, reason).into());
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
        final_rule: None,
        is_restricted: false,
    };
    Ok(EffectiveSettings {
        hook_points: resolver.hook_points()?,
        final_rule: None,
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
