//! The domain that a migration's target receives: edited before libvirt creates it, and its definition after that.

use std::sync::{Arc, Mutex, PoisonError};

use domain::host_facts::HostFacts;
use domain::migration::{IncomingEdits, incoming_xml};
use domain_xml::{Document, apply, diff};
use hook_host::Invocation;

use super::sync_request::SyncRequest;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;

/// The last incoming domain XML, before and after the hooks' edits. libvirt's persistent definition is the source's XML, so the
/// same edits are applied to the definition.
#[derive(Default)]
pub struct LastEdit(Mutex<Option<(String, String)>>);

/// Edits the incoming domain of one migration.
pub(super) struct IncomingDomainEditor {
    pub(super) hooks: Arc<dyn Hooks>,
    pub(super) hook_failures: HookFailureEvents,
    pub(super) invocation: Invocation,
    pub(super) request: SyncRequest,
    /// The node and the pod, and further edits, if the target places processors and names files
    /// (`--libvirt-hook-server-and-client`).
    pub(super) edits: Option<(HostFacts, IncomingEdits)>,
    pub(super) last: Arc<LastEdit>,
}

impl IncomingDomainEditor {
    /// The domain to use. The error is the reason of a refusal, which reaches the source.
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
        self.last.set(before, after.clone());
        Ok(after)
    }
}

impl LastEdit {
    fn set(&self, before: String, after: String) {
        *self.lock() = Some((before, after));
    }

    /// The definition with the same changes; `None` if there are none.
    ///
    /// # Errors
    /// A change does not fit the definition: elements are found by position, so both must have the same elements.
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn definition_gets_the_changes_of_the_incoming_domain() {
        let edit = LastEdit::default();
        assert_eq!(edit.apply_to("<domain/>"), Ok(None), "nothing came in");
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
