//! Checks the module's digest against the pinned one and the operator's policy.

use super::{ResolveError, Resolver};
use crate::policy::operator_policy::Digests;

impl Resolver<'_> {
    pub(super) fn check_digest(&self) -> Result<(), ResolveError> {
        let digest = self.identity.digest;
        let pin = self
            .yaml
            .and_then(|yaml| Some((yaml, yaml.content.sha256.as_ref()?)));
        if let Some((yaml, pin)) = pin
            && pin.get().0 != digest
        {
            return Err(ResolveError::Digest {
                place: yaml.at(pin.position()),
                expected: pin.get().0.clone(),
                actual: digest.to_owned(),
            });
        }
        let Some(operator) = self.operator else {
            return Ok(());
        };
        let Some(digests) = &operator.content.digests else {
            return Ok(());
        };
        let is_listed = || operator.lists_digest(digest, self.identity.namespace) || self.is_signed;
        let (is_allowed, condition) = match digests.get() {
            Digests::Any => (true, ""),
            Digests::Pinned => (
                pin.is_some() || is_listed(),
                "their sha256 stands in their hook.yaml or in a rule of this policy for the VM's \
                 namespace, or a key of such a rule signed them",
            ),
            Digests::Listed => (
                is_listed(),
                "their sha256 stands in a rule of this policy for the VM's namespace, or a key of \
                 such a rule signed them",
            ),
        };
        if is_allowed {
            return Ok(());
        }
        Err(ResolveError::UnknownDigest {
            place: operator.at(digests.position()),
            condition,
            digest: digest.to_owned(),
        })
    }
}
