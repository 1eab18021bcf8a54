//! The API server for one VMI, as virt-handler sees it: its own writes come back later, as watch events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::decision_rules::{Phase, VmiFacts};
use super::work_queue::WorkQueue;
use crate::vmi_builder::Vmi;

/// The status fields whose change makes virt-handler write the status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Status {
    pub(super) phase: Phase,
    /// Conditions and other fields that the first reconcile sets.
    pub(super) examined: bool,
    pub(super) agent_connected: bool,
    pub(super) paused: bool,
    pub(super) sync_error: Option<String>,
    /// Fields copied from the domain.
    pub(super) observed: Value,
}

/// A VMI in the cluster.
#[derive(Clone, Debug)]
pub(super) struct VmiObject {
    pub(super) vmi: Vmi,
    pub(super) version: u64,
    pub(super) deletion: Option<String>,
    pub(super) status: Status,
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
    server: Option<VmiObject>,
    /// virt-handler's copy.
    cached: Option<VmiObject>,
    /// virt-handler has written, and has not received the watch event yet. Until then it does not reconcile the VMI.
    expecting: bool,
}

/// The VMI was changed since it was read.
#[derive(Debug)]
pub(super) struct Conflict;

/// The cluster, shared by virt-handler and its user.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    state: Arc<Mutex<State>>,
    queue: Arc<WorkQueue>,
    delay: Duration,
}

impl Cluster {
    pub(super) fn new(vmi: &Vmi, queue: Arc<WorkQueue>, delay: Duration) -> Cluster {
        let object = VmiObject {
            vmi: vmi.clone(),
            version: 1,
            deletion: None,
            status: Status {
                phase: Phase::Scheduled,
                examined: false,
                agent_connected: false,
                paused: false,
                sync_error: None,
                observed: Value::Null,
            },
        };
        let state = State {
            server: Some(object),
            ..State::default()
        };
        Cluster {
            state: Arc::new(Mutex::new(state)),
            queue,
            delay,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// virt-handler's copy, unless an expectation is pending.
    pub(super) fn cached(&self) -> Result<Option<VmiObject>, ExpectationPending> {
        let state = self.lock();
        match (&state.cached, state.expecting) {
            (Some(_), true) => Err(ExpectationPending),
            (cached, _) => Ok(cached.clone()),
        }
    }

    /// The object in the API server.
    pub(super) fn current(&self) -> Option<VmiObject> {
        self.lock().server.clone()
    }

    /// Writes the status, if the object is still the one that was read.
    pub(super) fn write_status(&self, read: &VmiObject, status: Status) -> Result<(), Conflict> {
        {
            let mut state = self.lock();
            let server = state.server.as_mut().ok_or(Conflict)?;
            if server.version != read.version {
                return Err(Conflict);
            }
            server.version += 1;
            server.status = status;
            state.expecting = true;
        }
        self.publish();
        Ok(())
    }

    /// Another client changes the VMI, or removes it with `None`.
    pub(super) fn change(&self, change: impl FnOnce(VmiObject) -> Option<VmiObject>) {
        {
            let mut state = self.lock();
            state.server = state.server.take().and_then(change).map(|mut object| {
                object.version += 1;
                object
            });
        }
        self.publish();
    }

    /// The list call of a virt-handler that starts.
    pub(super) fn list(&self) {
        let mut state = self.lock();
        state.cached = state.server.clone();
        state.expecting = false;
    }

    /// The watch event.
    fn publish(&self) {
        let cluster = self.clone();
        if cluster.delay.is_zero() {
            cluster.list();
            cluster.queue.add();
            return;
        }
        tokio::spawn(async move {
            tokio::time::sleep(cluster.delay).await;
            cluster.list();
            cluster.queue.add();
        });
    }
}

/// See [`State::expecting`].
#[derive(Debug)]
pub(super) struct ExpectationPending;
