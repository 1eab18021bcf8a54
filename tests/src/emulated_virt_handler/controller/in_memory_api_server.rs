//! An API server with one VMI. Writes reach virt-handler's cache later, as watch events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::decision_rules::{Phase, VmiFacts};
use super::work_queue::WorkQueue;
use crate::vmi_builder::Vmi;

/// The status fields whose change makes virt-handler write the status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VmiStatus {
    pub(super) phase: Phase,
    /// Whether the fields are set that the first reconcile sets, like conditions.
    pub(super) is_initialized: bool,
    pub(super) agent_connected: bool,
    pub(super) paused: bool,
    pub(super) sync_error: Option<String>,
    /// Fields copied from the domain.
    pub(super) observed: Value,
}

/// A VMI in the API server.
#[derive(Clone, Debug)]
pub(super) struct VmiObject {
    pub(super) vmi: Vmi,
    pub(super) version: u64,
    pub(super) deletion: Option<String>,
    pub(super) status: VmiStatus,
}

impl VmiObject {
    pub(super) fn facts(&self) -> VmiFacts {
        VmiFacts {
            uid: self.vmi.uid().to_owned(),
            phase: self.status.phase,
            deleting: self.deletion.is_some(),
            grace_period: self.vmi.grace_period_seconds(),
        }
    }

    /// The VMI as it is sent to the launcher.
    pub(super) fn to_vmi(&self) -> Vmi {
        let (phase, version, deletion) = (self.status.phase, self.version, &self.deletion);
        self.vmi.clone().edit(|vmi| {
            vmi["status"]["phase"] = json!(format!("{phase:?}"));
            vmi["metadata"]["resourceVersion"] = json!(version.to_string());
            if let Some(time) = deletion {
                vmi["metadata"]["deletionTimestamp"] = json!(time);
            }
        })
    }
}

#[derive(Debug, Default)]
struct State {
    stored: Option<VmiObject>,
    /// The VMI in virt-handler's cache.
    cached: Option<VmiObject>,
    /// virt-handler has written the VMI and has not received the watch event yet. Until then it does not reconcile the
    /// VMI.
    expects_watch_event: bool,
}

/// The VMI was changed after it was read.
#[derive(Debug)]
pub(super) struct Conflict;

/// The API server, shared by virt-handler and the test.
#[derive(Clone, Debug)]
pub(super) struct ApiServer {
    state: Arc<Mutex<State>>,
    queue: Arc<WorkQueue>,
    delay: Duration,
}

impl ApiServer {
    pub(super) fn new(vmi: &Vmi, queue: Arc<WorkQueue>, delay: Duration) -> ApiServer {
        let object = VmiObject {
            vmi: vmi.clone(),
            version: 1,
            deletion: None,
            status: VmiStatus {
                phase: Phase::Scheduled,
                is_initialized: false,
                agent_connected: false,
                paused: false,
                sync_error: None,
                observed: Value::Null,
            },
        };
        let state = State {
            stored: Some(object),
            ..State::default()
        };
        ApiServer {
            state: Arc::new(Mutex::new(state)),
            queue,
            delay,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The VMI in virt-handler's cache, unless virt-handler waits for a watch event.
    pub(super) fn cached(&self) -> Result<Option<VmiObject>, WatchEventPending> {
        let state = self.lock();
        match (&state.cached, state.expects_watch_event) {
            (Some(_), true) => Err(WatchEventPending),
            (cached, _) => Ok(cached.clone()),
        }
    }

    /// The VMI in the API server.
    pub(super) fn current(&self) -> Option<VmiObject> {
        self.lock().stored.clone()
    }

    /// Writes the status, unless the VMI was changed after it was `read`.
    pub(super) fn write_status(&self, read: &VmiObject, status: VmiStatus) -> Result<(), Conflict> {
        {
            let mut state = self.lock();
            let stored = state.stored.as_mut().ok_or(Conflict)?;
            if stored.version != read.version {
                return Err(Conflict);
            }
            stored.version += 1;
            stored.status = status;
            state.expects_watch_event = true;
        }
        self.publish();
        Ok(())
    }

    /// Changes the VMI as another client, or removes it if `change` returns `None`.
    pub(super) fn change(&self, change: impl FnOnce(VmiObject) -> Option<VmiObject>) {
        {
            let mut state = self.lock();
            state.stored = state.stored.take().and_then(change).map(|mut object| {
                object.version += 1;
                object
            });
        }
        self.publish();
    }

    /// Copies the VMI into virt-handler's cache, as its list call at the start does.
    pub(super) fn list(&self) {
        let mut state = self.lock();
        state.cached = state.stored.clone();
        state.expects_watch_event = false;
    }

    /// Sends the watch event after the delay.
    fn publish(&self) {
        let api_server = self.clone();
        if api_server.delay.is_zero() {
            api_server.list();
            api_server.queue.add();
            return;
        }
        tokio::spawn(async move {
            tokio::time::sleep(api_server.delay).await;
            api_server.list();
            api_server.queue.add();
        });
    }
}

/// virt-handler waits for the watch event of its own write; see [`State::expects_watch_event`].
#[derive(Debug)]
pub(super) struct WatchEventPending;
