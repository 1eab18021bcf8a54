//! The notifications that the VM's launcher has sent to virt-handler.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::emulated_virt_handler::{Event, VirtHandler};

use super::TestVm;
use crate::fault_row_calls::backup_name;

impl TestVm {
    /// All notifications so far, earlier virt-handlers included.
    pub(crate) fn events(&self) -> Vec<Event> {
        let current = self.handler.as_ref().map(VirtHandler::events);
        [self.earlier_events.clone(), current.unwrap_or_default()].concat()
    }

    /// `Status/Reason` of the domain events from `first_event_index` on.
    pub(crate) fn states(&self, first_event_index: usize) -> Vec<String> {
        let events = self.events();
        let states = events.iter().skip(first_event_index).map(Event::state);
        states.filter(|state| !state.is_empty()).collect()
    }

    /// Whether a Kubernetes event from `first_event_index` on has `text` in its message.
    pub(crate) fn has_kubernetes_event(&self, first_event_index: usize, text: &str) -> bool {
        let events = self.events();
        events
            .iter()
            .skip(first_event_index)
            .any(|event| event.kubernetes_reason().is_some() && event.to_string().contains(text))
    }

    /// The number of Kubernetes events of a reason from `first_event_index` on.
    pub(crate) fn count_kubernetes_events(&self, first_event_index: usize, reason: &str) -> usize {
        let events = self.events();
        let of_reason = |event: &&Event| event.kubernetes_reason() == Some(reason);
        events
            .iter()
            .skip(first_event_index)
            .filter(of_reason)
            .count()
    }

    /// Waits for a state with the prefix `state`, from `first_event_index` on.
    pub(crate) async fn wait_for_state(
        &self,
        state: &str,
        first_event_index: usize,
        deadline: Duration,
    ) -> Result<()> {
        let reported = async || {
            self.states(first_event_index)
                .iter()
                .any(|reported| reported.starts_with(state))
                .then_some(())
        };
        let waited =
            tests::wait_until(&format!("a notification of {state}"), deadline, reported).await;
        waited.with_context(|| format!("the states were {:?}", self.states(first_event_index)))
    }

    /// Waits for the end of the newest backup. Returns the reason of its failure; empty if it is complete.
    pub(crate) async fn backup_message(
        &self,
        first_event_index: usize,
        deadline: Duration,
    ) -> Result<String> {
        let name = backup_name(&self.vmi, false);
        let ended = async || {
            let events = self.events();
            let records = events
                .iter()
                .skip(first_event_index)
                .map(|event| &event.metadata()["Backup"]);
            let mut records = records.filter(|record| record["Name"] == name.as_str());
            let record = records.rfind(|record| record["Completed"] == true)?;
            let message = record["BackupMsg"].as_str().unwrap_or_default();
            let is_failed = record["Failed"] == true;
            Some(if is_failed { message } else { "" }.to_owned())
        };
        tests::wait_until("the end of a backup", deadline, ended).await
    }

    /// Waits for the failure of a memory dump, and returns its reason.
    pub(crate) async fn dump_failure(
        &self,
        first_event_index: usize,
        deadline: Duration,
    ) -> Result<String> {
        let failed = async || {
            let events = self.events();
            let mut records = events
                .iter()
                .skip(first_event_index)
                .map(|event| &event.metadata()["MemoryDump"]);
            let record = records.rfind(|record| record["Failed"] == true)?;
            Some(
                record["FailureReason"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            )
        };
        tests::wait_until("the failure of a memory dump", deadline, failed).await
    }
}
