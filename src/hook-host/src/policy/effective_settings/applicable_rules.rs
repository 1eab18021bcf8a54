//! Which of the operator's rules hold for a module: those with keys only with a signature.

use sigstore_bundle::PublicKey;

use super::{ModuleIdentity, ResolveError};
use crate::policy::operator_policy::{OperatorPolicy, Rule};

/// The rules that hold for a module.
///
/// Of the rules that name it by digest and namespace, those with keys hold if one of their keys signed
/// it. If there are such rules and none of them holds, the module may not run, unless a rule without
/// keys lists its digest: the operator has then named this very module.
pub(super) fn applicable_rules<'a>(
    policy: &'a OperatorPolicy,
    module: &ModuleIdentity<'_>,
) -> Result<Vec<&'a Rule>, ResolveError> {
    let named = policy.rules(module.digest, module.namespace);
    let signer = module.signature.signer();
    let is_signer = |key: &PublicKey| Some(key.id()) == signer;
    let holds = |rule: &&Rule| {
        let mut signers = rule.signers();
        signers.as_mut().is_none_or(|keys| keys.any(is_signer))
    };
    let with_keys = || named.iter().filter(|rule| rule.keys.is_some());
    let is_listed = || {
        named
            .iter()
            .any(|rule| rule.keys.is_none() && rule.digests.is_some())
    };
    if let Some(keys) = with_keys().find_map(|rule| rule.keys.as_ref())
        && !with_keys().any(&holds)
        && !is_listed()
    {
        return Err(ResolveError::NotSigned {
            place: policy.at(keys.position()),
            reason: module.signature.reason().to_owned(),
        });
    }
    Ok(named.into_iter().filter(holds).collect())
}
