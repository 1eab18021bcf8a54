//! Which module it must be.

use super::{SettleError, Terms, at};
use crate::policy::operator::Digests;

impl Terms<'_> {
    pub(super) fn digest(&self) -> Result<(), SettleError> {
        let found = self.subject.digest;
        let pin = self
            .yaml
            .and_then(|yaml| Some((yaml, yaml.content.sha256.as_ref()?)));
        if let Some((yaml, pin)) = pin
            && pin.get().0 != found
        {
            return Err(SettleError::Digest {
                place: at(yaml, pin.place()),
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
        let (known, wanted) = match digests.get() {
            Digests::Any => (true, ""),
            Digests::Pinned => (
                pin.is_some() || operator.lists(found),
                "their sha256 stands in their hook.yaml or in a rule of this policy",
            ),
            Digests::Listed => (
                operator.lists(found),
                "their sha256 stands in a rule of this policy",
            ),
        };
        if known {
            return Ok(());
        }
        Err(SettleError::UnknownDigest {
            place: operator.at(digests.place()),
            wanted,
            digest: found.to_owned(),
        })
    }
}
