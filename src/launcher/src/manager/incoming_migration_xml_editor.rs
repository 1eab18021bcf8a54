//! Edits the domain that a migration's target receives: before libvirt creates it, and later its definition.

use std::sync::{Arc, Mutex, PoisonError};

use domain::host_facts::HostFacts;
use domain::migration::{IncomingEdits, incoming_xml};
use domain_xml::Document;
use domain_xml::host::{apply, diff};
use hook_host::Invocation;

use super::sync_request::SyncRequest;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;

/// The XML of the last incoming domain, before and after its edits. libvirt's persistent definition is the source's
/// XML, so the same edits are applied to the definition.
#[derive(Default)]
pub struct LastIncomingEdit(Mutex<Option<(String, String)>>);

/// Edits the incoming domain of one migration.
pub(super) struct IncomingDomainEditor {
    pub(super) hooks: Arc<dyn Hooks>,
    pub(super) hook_failures: HookFailureEvents,
    pub(super) invocation: Invocation,
    pub(super) request: SyncRequest,
    /// With `--libvirt-hook-server-and-client`: the host facts, and the edits that place vCPUs and name files of the
    /// target.
    pub(super) edits: Option<(HostFacts, IncomingEdits)>,
    pub(super) last_edit: Arc<LastIncomingEdit>,
}

impl IncomingDomainEditor {
    /// The domain that libvirt is to create. An error refuses the migration, and its text reaches the source.
    pub(super) async fn edit(&self, xml: String) -> Result<String, String> {
        let SyncRequest {
            vmi,
            options,
            plugins,
            ..
        } = &self.request;
        let before = xml.clone();
        let placed = match &self.edits {
            Some((facts, edits)) => {
                incoming_xml(xml, vmi, options, facts, *edits).map_err(|error| error.to_string())?
            }
            None => xml,
        };
        let hooked =
            self.hooks
                .on_incoming_domain(&self.invocation, vmi.raw_json(), placed, plugins);
        let (after, runs) = hooked.await.map_err(|error| {
            self.hook_failures.report(&error);
            error.to_string()
        })?;
        self.hook_failures.report_ignored(&runs);
        tracing::info!(changed = after != before, "incoming domain");
        self.last_edit.set(before, after.clone());
        Ok(after)
    }
}

impl LastIncomingEdit {
    fn set(&self, before: String, after: String) {
        *self.lock() = Some((before, after));
    }

    /// The definition with the changes of the last edit; `None` if there are none.
    ///
    /// # Errors
    /// If a change does not fit the definition: elements are found by position, so both must have the same elements.
    pub(super) fn apply_to(&self, definition: &str) -> Result<Option<String>, String> {
        let Some((before, after)) = self.lock().clone() else {
            return Ok(None);
        };
        let parse = |xml: &str| Document::parse(xml).map_err(|error| error.to_string());
        let changes = diff(&parse(&before)?, &parse(&after)?);
        if changes.is_empty() {
            return Ok(None);
        }
        let changed = apply(&changes, &parse(definition)?);
        Ok(Some(changed.map_err(|error| error.to_string())?.render()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_gets_the_changes_of_the_incoming_domain() {
        let edit = LastIncomingEdit::default();
        assert_eq!(
            edit.apply_to("<domain/>"),
            Ok(None),
            "no domain was received"
        );
        let domain = "<domain><name>a</name><devices><disk><source file='/a'/><target dev='vda'/></disk></devices></domain>";
        edit.set(domain.into(), domain.into());
        assert_eq!(edit.apply_to(domain), Ok(None));
        edit.set(domain.into(), domain.replace("'/a'", "'/b'"));
        let definition = domain.replace("dev='vda'", "dev='vda' bus='virtio'");
        let defined = edit.apply_to(&definition).unwrap().unwrap();
        assert_eq!(defined, definition.replace("'/a'", "'/b'"));
        assert!(edit.apply_to("<domain/>").is_err());
    }
}
