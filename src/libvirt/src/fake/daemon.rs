//! The fake daemon: its domains, its open connections, its recorded calls, and the behavior that a test has set.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::Call;
use super::errors::{domain_not_found, qemu_error};
use super::running_jobs::{MigrationPlan, SentMigration};
use super::simulated_domain::{DefinitionXml, SimulatedDomain};
use crate::domain::SevInfo;
use crate::error::{Error, Result, code, origin};
use crate::event::{CloseReason, Detail, Event, EventHandlers, LifecycleEvent};

/// The behavior that a test has set, and the recorded calls.
#[derive(Default)]
pub(super) struct Controls {
    pub(super) failures: VecDeque<(Call, Error)>,
    pub(super) delays: HashMap<Call, Duration>,
    pub(super) calls: Vec<Call>,
    /// Guests ignore shutdown requests.
    pub(super) ignores_shutdown: bool,
    /// The daemon is stopped.
    pub(super) is_stopped: bool,
    pub(super) dump_duration: Duration,
    pub(super) migration_plan: MigrationPlan,
    pub(super) sent_migrations: Vec<SentMigration>,
    pub(super) max_downtimes: Vec<u64>,
    pub(super) backup_duration: Duration,
    pub(super) sev_info: Option<SevInfo>,
}

/// The daemon's side of one connection.
#[derive(Default)]
pub(super) struct ConnectionState {
    pub(super) handlers: EventHandlers,
    pub(super) is_closed: AtomicBool,
}

/// The daemon that [`FakeDaemon`](super::FakeDaemon) controls.
#[derive(Default)]
pub(super) struct Daemon {
    controls: Mutex<Controls>,
    domains: Mutex<BTreeMap<String, SimulatedDomain>>,
    connections: Mutex<Vec<Weak<ConnectionState>>>,
    /// Held while the events of one change are published, so that the events of two callers do not mix.
    event_order: Mutex<()>,
    last_number: Mutex<u32>,
}

impl Daemon {
    pub(super) fn controls<T>(&self, with: impl FnOnce(&mut Controls) -> T) -> T {
        with(&mut lock(&self.controls))
    }

    /// Begins a call: records and delays it, and fails if a failure is queued.
    pub(super) fn begin_call(&self, call: Call) -> Result<()> {
        self.record_call(call).map_or(Ok(()), Err)
    }

    /// Records and delays the call. Returns the failure that is queued for it, if any.
    pub(super) fn record_call(&self, call: Call) -> Option<Error> {
        let (delay, failure) = self.controls(|controls| {
            controls.calls.push(call);
            let failure = controls
                .failures
                .iter()
                .position(|(failing_call, _)| *failing_call == call);
            let failure = failure.and_then(|index| controls.failures.remove(index));
            (controls.delays.get(&call).copied(), failure)
        });
        if let Some(delay) = delay {
            std::thread::sleep(delay);
        }
        failure.map(|(_, error)| error)
    }

    pub(super) fn open(&self) -> Result<Arc<ConnectionState>> {
        self.begin_call(Call::Connect)?;
        if self.controls(|controls| controls.is_stopped) {
            return Err(Error {
                code: code::SYSTEM_ERROR,
                domain: origin::RPC,
                message: "Failed to connect socket to '/var/run/libvirt/virtqemud-sock': \
                          No such file or directory"
                    .into(),
            });
        }
        let state = Arc::new(ConnectionState::default());
        lock(&self.connections).push(Arc::downgrade(&state));
        Ok(state)
    }

    pub(super) fn stop(&self, reason: CloseReason) {
        self.controls(|controls| controls.is_stopped = true);
        let connections = std::mem::take(&mut *lock(&self.connections));
        for state in connections.iter().filter_map(Weak::upgrade) {
            state.is_closed.store(true, Ordering::SeqCst);
            state.handlers.publish(&Event::ConnectionClosed { reason });
        }
    }

    /// Runs `with` on the domain; `None` if it does not exist.
    pub(super) fn with_domain<T>(
        &self,
        name: &str,
        with: impl FnOnce(&mut SimulatedDomain) -> T,
    ) -> Option<T> {
        lock(&self.domains).get_mut(name).map(with)
    }

    /// Adds a domain without publishing an event.
    pub(super) fn insert(&self, domain: SimulatedDomain) {
        lock(&self.domains).insert(domain.name.clone(), domain);
    }

    /// Changes a domain and publishes the events, if the domain runs.
    pub(super) fn change_if_active(
        &self,
        name: &str,
        change: impl FnOnce(&mut SimulatedDomain) -> Vec<Event>,
    ) {
        let _ = self.change(name, |domain| {
            if domain.is_active() {
                Ok(change(domain))
            } else {
                Ok(Vec::new())
            }
        });
    }

    /// Changes a domain, and publishes the events if the change succeeds.
    pub(super) fn change(
        &self,
        name: &str,
        change: impl FnOnce(&mut SimulatedDomain) -> Result<Vec<Event>>,
    ) -> Result<()> {
        let event_order = lock(&self.event_order);
        let mut domains = lock(&self.domains);
        let domain = domains
            .get_mut(name)
            .ok_or_else(|| domain_not_found(name))?;
        let events = change(domain)?;
        domains.retain(|_, domain| !domain.is_gone());
        drop(domains);
        for event in &events {
            self.publish(event);
        }
        drop(event_order);
        Ok(())
    }

    /// Adds a domain or replaces its persistent configuration. Returns the domain's UUID.
    pub(super) fn define(&self, mut definition: DefinitionXml) -> Result<String> {
        let event_order = lock(&self.event_order);
        let mut domains = lock(&self.domains);
        let name = definition.name.clone();
        let uuid = definition.uuid.clone().unwrap_or_else(|| self.make_uuid());
        definition.set_uuid(&uuid);
        let detail = match domains.get_mut(&name) {
            Some(domain) if domain.uuid != uuid => return Err(uuid_conflict(domain)),
            Some(domain) => {
                domain.inactive = Some(definition);
                Detail::Updated
            }
            None => {
                domains.insert(name.clone(), SimulatedDomain::new(definition, uuid.clone()));
                Detail::Added
            }
        };
        drop(domains);
        self.publish(&Event::Lifecycle {
            domain: name,
            event: LifecycleEvent::Defined,
            detail,
        });
        drop(event_order);
        Ok(uuid)
    }

    /// A number for a new QEMU process or UUID.
    pub(super) fn next_number(&self) -> u32 {
        let mut last_number = lock(&self.last_number);
        *last_number += 1;
        *last_number
    }

    fn make_uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.next_number())
    }

    pub(super) fn publish(&self, event: &Event) {
        let connections: Vec<_> = lock(&self.connections)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for state in connections {
            state.handlers.publish(event);
        }
    }
}

fn uuid_conflict(domain: &SimulatedDomain) -> Error {
    qemu_error(
        code::OPERATION_FAILED,
        format!(
            "operation failed: domain '{}' already exists with uuid {}",
            domain.name, domain.uuid
        ),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
