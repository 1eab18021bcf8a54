//! Checks the module's digest.

use super::{ResolveError, Resolver, at};
use crate::policy::operator_policy::Digests;

impl Resolver<'_> {
    pub(super) fn digest(&self) -> Result<(), ResolveError> {
        let found = self.identity.digest;
        let pin = self
            .yaml
            .and_then(|yaml| Some((yaml, yaml.content.sha256.as_ref()?)));
        if let Some((yaml, pin)) = pin
            && pin.get().0 != found
        {
            return Err(ResolveError::Digest {
                place: at(yaml, pin.position()),
                expected: pin.get().0.clone(),
                found: found.to_owned(),
            });
        }
        let Some(operator) = self.operator else {
            return Ok(());
        };
        let Some(digests) = &operator.content.digests else {
            return Ok(());
        };
        let listed = || operator.lists(found, self.identity.namespace) || self.is_signed;
        let (known, wanted) = match digests.get() {
            Digests::Any => (true, ""),
            Digests::Pinned => (
                pin.is_some() || listed(),
                "their sha256 stands in their hook.yaml or in a rule of this policy for the VM's \
                 namespace, or a key of such a rule signed them",
            ),
            Digests::Listed => (
                listed(),
                "their sha256 stands in a rule of this policy for the VM's namespace, or a key of \
                 such a rule signed them",
            ),
        };
        if known {
            return Ok(());
        }
        Err(ResolveError::UnknownDigest {
            place: operator.at(digests.position()),
            wanted,
            digest: found.to_owned(),
        })
    }
}
