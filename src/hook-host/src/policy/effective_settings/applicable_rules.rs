//! The rules of the operator's policy that apply to a module. Rules with keys apply only to signed modules.

use sigstore_bundle::PublicKey;

use super::{ModuleIdentity, ResolveError};
use crate::policy::operator_policy::{OperatorPolicy, Rule};

/// The rules that apply to a module.
///
/// A rule applies if it names the module's digest and namespace and, if the rule has keys, one of the
/// keys signed the module. If rules with keys name the module and none of them applies, the module may
/// not run, unless a rule without keys lists its digest: the operator has then allowed this very module.
pub(super) fn applicable_rules<'a>(
    policy: &'a OperatorPolicy,
    module: &ModuleIdentity<'_>,
) -> Result<Vec<&'a Rule>, ResolveError> {
    let named = policy.rules(module.digest, module.namespace);
    let signer = module.signature.signer();
    let is_signer = |key: &PublicKey| Some(key.id()) == signer;
    let applies = |rule: &&Rule| {
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
        && !with_keys().any(&applies)
        && !is_listed()
    {
        return Err(ResolveError::NotSigned {
            place: policy.at(keys.position()),
            reason: module.signature.reason().to_owned(),
        });
    }
    Ok(named.into_iter().filter(applies).collect())
}
