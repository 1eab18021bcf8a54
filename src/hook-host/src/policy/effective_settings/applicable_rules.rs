//! The rules of the operator's policy that apply to a module. Rules with keys apply only to signed modules.

use super::{ModuleIdentity, ResolveError};
use crate::policy::module_signature::Signer;
use crate::policy::operator_policy::{OperatorPolicy, Rule};
use crate::policy::yaml_values::SignerKey;

/// The rules that apply to a module.
///
/// A rule applies if it names the module's digest and namespace and, if the rule has keys, one of the
/// keys signed the module, and not before the key's earliest date. If rules with keys name the module and none of them applies, the module may
/// not run, unless a rule without keys lists its digest: the operator has then allowed this very module.
pub(super) fn applicable_rules<'a>(
    policy: &'a OperatorPolicy,
    module: &ModuleIdentity<'_>,
) -> Result<Vec<&'a Rule>, ResolveError> {
    let named = policy.rules(module.digest, module.namespace);
    let signer = module.signature.signer();
    let is_signer = |key: &SignerKey| {
        let made = signer.filter(|signer| signer.key == key.key.id());
        made.is_some_and(|signer| too_early(policy, signer, key).is_none())
    };
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
            reason: match signer.and_then(|signer| {
                let mut keys = with_keys().filter_map(|rule| rule.signers()).flatten();
                keys.find_map(|key| {
                    (signer.key == key.key.id()).then(|| too_early(policy, signer, key))?
                })
            }) {
                Some(too_early) => too_early,
                None => module.signature.reason().to_owned(),
            },
        });
    }
    Ok(named.into_iter().filter(applies).collect())
}

/// Why the signature of a key does not count because of the date in the module, if it does not.
fn too_early(policy: &OperatorPolicy, signer: &Signer, key: &SignerKey) -> Option<String> {
    const REMEDY: &str = "sign it again with `virt-hook sign --dated`, which changes its sha256";
    let not_before = key.not_before.as_ref()?;
    let wanted = format!(
        "{} wants signatures of this key from {} on",
        policy.at(not_before.position()),
        not_before.get()
    );
    match &signer.date {
        Ok(Some(date)) if date >= not_before.get() => None,
        Ok(Some(date)) => Some(format!("it was signed at {date}, and {wanted}: {REMEDY}")),
        Ok(None) => Some(format!("it has no date of signing, and {wanted}: {REMEDY}")),
        Err(reason) => Some(format!(
            "its date of signing cannot be read ({reason}), and {wanted}: {REMEDY}"
        )),
    }
}
