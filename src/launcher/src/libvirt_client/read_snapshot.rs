//! Reads a snapshot of the domain, which concurrent callers share.

use std::sync::Arc;
use std::time::Duration;

use domain::libvirt_spec::DomainSpec;

use super::call_class::{DESCRIPTION, STATE};
use super::domain_snapshot::{DomainSnapshot, SnapshotError};
use super::reconnecting_connection::Session;
use super::{Client, Inner};
use crate::blocking::NoAnswer;

impl Client {
    /// Stores the spec of a domain that arrives by a migration: libvirt does not return its XML while the migration's
    /// data arrive.
    pub(crate) fn expect(&self, spec: DomainSpec) {
        self.0.reader.expect(spec);
    }

    /// Takes a snapshot of the domain within `deadline`. Concurrent callers share the snapshot.
    pub async fn snapshot(&self, deadline: Duration) -> Result<DomainSnapshot, SnapshotError> {
        let client = self.clone();
        let read = async move { client.read_snapshot().await.map(Arc::new) };
        let shared = tokio::time::timeout(deadline, self.0.snapshots.get(read)).await;
        let late = |_| NoAnswer::Timeout {
            what: "reading the domain's state and description",
            deadline,
        };
        shared.map_err(late)?.map(Arc::unwrap_or_clone)
    }

    async fn read_snapshot(&self) -> Result<DomainSnapshot, SnapshotError> {
        let state = |inner: &Inner, session: &Session| {
            let state = inner
                .handle
                .read(session, &inner.domain_name, |domain| domain.state());
            Ok::<_, SnapshotError>(state?)
        };
        let state = self.read("asking for the domain's state", STATE, state);
        let Some(state) = state.await? else {
            return Ok(DomainSnapshot::GONE);
        };
        // libvirt does not return the XML during the migration's job.
        if state.is_stopped_for_migration()
            && let Some(spec) = self.0.reader.last()
        {
            return Ok(DomainSnapshot::new(state, spec));
        }
        let spec = |inner: &Inner, session: &Session| {
            inner
                .reader
                .read(&inner.handle, session, &inner.domain_name)
        };
        let spec = self.read("reading the domain's description", DESCRIPTION, spec);
        let spec = match spec.await {
            // The state is current, and the description rarely changes while the domain runs.
            Err(SnapshotError::NoAnswer(error)) if !state.is_down() => {
                tracing::debug!(reason = %error, "taking the domain's last description");
                Some(self.0.reader.last().ok_or(error)?)
            }
            result => result?,
        };
        // The domain may be gone: its state was read before.
        Ok(match spec {
            Some(spec) => DomainSnapshot::new(state, spec),
            None => DomainSnapshot::GONE,
        })
    }
}
