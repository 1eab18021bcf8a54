//! Resolves the parameters of a migration that a hook may set.

use std::collections::BTreeSet;

use super::{ResolveError, Resolver};
use crate::MigrationParameter;

impl Resolver<'_> {
    /// The parameters that the module declares. A parameter that the operator's policy does not allow is an error.
    pub(super) fn migration(&self) -> Result<BTreeSet<MigrationParameter>, ResolveError> {
        let wishes = self.identity.description.wishes.iter();
        let allowed = self.operator_list("allow.migration", |allow| allow.migration.as_ref());
        let mut granted = BTreeSet::new();
        for wish in wishes.flat_map(|wishes| &wishes.migration) {
            if let Some(allowed) = &allowed
                && !allowed.values.contains(&wish)
            {
                return Err(allowed.refuses("parameter of a migration", wish.name()));
            }
            granted.insert(*wish);
        }
        Ok(granted)
    }
}
