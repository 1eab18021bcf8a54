//! The checks of a hook's output against its wishes: changed XML, and changed migration parameters.

use domain_xml::Document;
use domain_xml::host::{Change, diff};
use hook_host::policy::permission::{Checker, Permission, RefusalReason};
use hook_host::{AttachedDevice, DeviceError, MigrationParameters, Wishes};

use super::Hook;
use crate::call_result::{EditedDevice, EditedDomain, Refusal};

impl Hook {
    pub(super) fn check_parameters(
        &self,
        before: &MigrationParameters,
        texts: &[(String, String)],
    ) -> Result<MigrationParameters, Refusal> {
        let after = before.with_texts(texts);
        let after = after.map_err(|error| Refusal::BadOutput(error.to_string()))?;
        let wishes = self.description().wishes.as_ref();
        let declared = wishes.map_or(&[][..], |wishes| &wishes.migration);
        let mut differences = before.differences(&after).into_iter();
        match differences.find(|(parameter, ..)| !declared.contains(parameter)) {
            Some((parameter, ..)) => Err(Refusal::Denied(format!(
                "the hook may not change the migration's {parameter}: declare it with \
                 Description::with_migration_parameters([MigrationParameter::{parameter:?}])"
            ))),
            None => Ok(after),
        }
    }

    pub(super) fn check_device(&self, before: &str, xml: String) -> Result<EditedDevice, Refusal> {
        let bad_output = |error: DeviceError| Refusal::BadOutput(error.to_string());
        let parse = |xml: &str| AttachedDevice::parse(xml).map_err(bad_output);
        let (before, after) = (parse(before)?, parse(&xml)?);
        before.same_identity(&after).map_err(bad_output)?;
        let changes = self.within_wishes(before.as_domain(), after.as_domain())?;
        Ok(EditedDevice { xml, changes })
    }

    pub(super) fn check_domain(&self, before: &str, xml: String) -> Result<EditedDomain, Refusal> {
        let parse =
            |xml: &str| Document::parse(xml).map_err(|error| Refusal::BadOutput(error.to_string()));
        let (before, after) = (parse(before)?, parse(&xml)?);
        let changes = self.within_wishes(&before, &after)?;
        Ok(EditedDomain { xml, changes })
    }

    /// The changes, if the hook's wishes permit them.
    fn within_wishes(&self, before: &Document, after: &Document) -> Result<Vec<Change>, Refusal> {
        let changes = diff(before, after);
        let wishes = self.description().wishes.as_ref();
        let paths = wishes.map_or_else(Vec::new, Wishes::paths_with_attributes);
        let mut checker = Checker::new(&paths, before, after);
        for change in &changes {
            if let Permission::Refused(refusal) = checker.permits(change) {
                let remedy = match (refusal.suggested_pattern, refusal.reason) {
                    (Some(pattern), _) => {
                        format!("declare it with Description::with_paths([{pattern:?}])")
                    }
                    (None, RefusalReason::ConditionNotMet { reason, .. }) => {
                        format!("{reason}: write a value that meets the condition, or widen it")
                    }
                    (None, reason) => format!("no wish can allow it ({reason:?})"),
                };
                let text = format!("the hook may not change {}: {remedy}", refusal.path);
                return Err(Refusal::Denied(text));
            }
        }
        Ok(changes)
    }
}
