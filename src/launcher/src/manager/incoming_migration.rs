//! The stages of a migration to this pod. Pure.
//!
//! ```text
//!   [none] ─prepared─▶ [expected] ─started, migrated─▶ [receiving] ─resumed, or paused by its owner─▶ [running]
//!     ▲                    │                              │                                             │
//!     └───────stopped──────┴──────────────────────────────┴─────────────────────────────────────────────┘
//! ```
//! Events that were lost with the connection to libvirt are derived from the state of the domain.

use std::sync::{Arc, Mutex, PoisonError};

use domain::host_facts::HostFacts;
use domain::migration::{IncomingEdits, incoming_xml};
use domain_xml::Document;
use domain_xml::host::{apply, diff};
use hook_host::Invocation;
use libvirt::{Detail, DomainState, Event, LifecycleEvent, Reason, State};

use super::sync_request::SyncRequest;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;

/// The stage of a migration to this pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IncomingMigrationStage {
    /// There is no migration to this pod.
    #[default]
    None,
    /// This pod has been prepared for the VM, or is being prepared.
    Expected,
    /// libvirt has the domain and is receiving its state.
    Receiving,
    /// The guest runs here, or is paused here because its owner paused it.
    Running,
}

impl IncomingMigrationStage {
    /// The stage after this pod was chosen as a migration's target.
    #[must_use]
    pub(super) fn expect(self) -> IncomingMigrationStage {
        match self {
            IncomingMigrationStage::None => IncomingMigrationStage::Expected,
            under_way => under_way,
        }
    }

    /// Whether events of the migration are still expected.
    pub(super) fn is_under_way(self) -> bool {
        matches!(
            self,
            IncomingMigrationStage::Expected | IncomingMigrationStage::Receiving
        )
    }

    /// Whether libvirt has begun to receive the VM.
    pub(super) fn has_begun(self) -> bool {
        matches!(
            self,
            IncomingMigrationStage::Receiving | IncomingMigrationStage::Running
        )
    }

    /// The lifecycle events that were lost, derived from the state of the domain; `None` if there is no domain. During
    /// post-copy, the event that all memory has arrived is still expected.
    pub(super) fn lost_events(self, state: Option<State>) -> Vec<(LifecycleEvent, Detail)> {
        let started = (LifecycleEvent::Started, Detail::Migrated);
        let Some(state) = state.filter(|state| state.is_active()) else {
            let stopped = (LifecycleEvent::Stopped, Detail::Failed);
            let is_lost = self == IncomingMigrationStage::Receiving;
            return is_lost.then_some(stopped).into_iter().collect();
        };
        let arrived = match (state.state, state.reason) {
            (DomainState::Running, Reason::Postcopy) => None,
            (DomainState::Running, _) => Some((LifecycleEvent::Resumed, Detail::Migrated)),
            (DomainState::Paused, Reason::User) => {
                Some((LifecycleEvent::Suspended, Detail::Paused))
            }
            _ => None,
        };
        match self {
            IncomingMigrationStage::Expected => [started].into_iter().chain(arrived).collect(),
            IncomingMigrationStage::Receiving => arrived.into_iter().collect(),
            IncomingMigrationStage::None | IncomingMigrationStage::Running => Vec::new(),
        }
    }

    /// The stage after an event of the domain.
    #[must_use]
    pub(super) fn observe(self, event: &Event) -> IncomingMigrationStage {
        let Event::Lifecycle { event, detail, .. } = event else {
            return self;
        };
        match (self, event, detail) {
            (_, LifecycleEvent::Stopped, _) => IncomingMigrationStage::None,
            (_, LifecycleEvent::Started, Detail::Migrated) => IncomingMigrationStage::Receiving,
            // After post-copy, libvirt sends this event when all memory has arrived.
            (IncomingMigrationStage::Receiving, LifecycleEvent::Resumed, Detail::Migrated)
            | (IncomingMigrationStage::Receiving, LifecycleEvent::Suspended, Detail::Paused) => {
                IncomingMigrationStage::Running
            }
            _ => self,
        }
    }
}

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
mod tests;
