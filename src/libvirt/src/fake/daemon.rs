//! The fake daemon: its domains, its open connections, and how tests want it to behave.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::Call;
use super::definition_xml::DefinitionXml;
use super::migration_plan::{MigrationPlan, SentMigration};
use super::simulated_domain::SimulatedDomain;
use crate::error::{Error, Result, code, origin};
use crate::event::{CloseReason, Detail, Event, LifecycleEvent};
use crate::launch_security::SevInfo;
use crate::subscribers::Subscribers;

/// How the daemon is to behave, and the calls that it received.
#[derive(Default)]
pub(super) struct Controls {
    pub(super) failures: VecDeque<(Call, Error)>,
    pub(super) delays: HashMap<Call, Duration>,
    pub(super) calls: Vec<Call>,
    pub(super) disobedient: bool,
    pub(super) down: bool,
    pub(super) dump_duration: Duration,
    pub(super) migration: MigrationPlan,
    pub(super) migrations: Vec<SentMigration>,
    pub(super) max_downtimes: Vec<u64>,
    pub(super) backup_duration: Duration,
    pub(super) sev_info: Option<SevInfo>,
}

/// The daemon's end of one connection.
#[derive(Default)]
pub(super) struct ConnectionState {
    pub(super) subscribers: Subscribers,
    pub(super) dead: AtomicBool,
}

#[derive(Default)]
pub(super) struct Daemon {
    controls: Mutex<Controls>,
    domains: Mutex<BTreeMap<String, SimulatedDomain>>,
    connections: Mutex<Vec<Weak<ConnectionState>>>,
    /// One batch of events at a time, so that two callers' events do not mix.
    event_order: Mutex<()>,
    last_number: Mutex<u32>,
}

impl Daemon {
    pub(super) fn controls<T>(&self, with: impl FnOnce(&mut Controls) -> T) -> T {
        with(&mut lock(&self.controls))
    }

    /// The start of every call: it is recorded, delayed, and fails if a failure is queued.
    pub(super) fn begin_call(&self, call: Call) -> Result<()> {
        self.record_call(call).map_or(Ok(()), Err)
    }

    /// Records and delays the call; returns the failure that is queued for it.
    pub(super) fn record_call(&self, call: Call) -> Option<Error> {
        let (delay, failure) = self.controls(|controls| {
            controls.calls.push(call);
            let failure = controls
                .failures
                .iter()
                .position(|(which, _)| *which == call);
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
        if self.controls(|controls| controls.down) {
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
        self.controls(|controls| controls.down = true);
        let connections = std::mem::take(&mut *lock(&self.connections));
        for state in connections.iter().filter_map(Weak::upgrade) {
            state.dead.store(true, Ordering::SeqCst);
            state
                .subscribers
                .publish(&Event::ConnectionClosed { reason });
        }
    }

    /// Runs `with` on a domain, if there is such a domain.
    pub(super) fn with_domain<T>(
        &self,
        name: &str,
        with: impl FnOnce(&mut SimulatedDomain) -> T,
    ) -> Option<T> {
        lock(&self.domains).get_mut(name).map(with)
    }

    /// Adds a domain without an event.
    pub(super) fn insert(&self, domain: SimulatedDomain) {
        lock(&self.domains).insert(domain.name.clone(), domain);
    }

    /// Changes a running domain and publishes the events; does nothing if the domain does not run.
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

    /// Changes a domain and publishes the events, unless the change fails.
    pub(super) fn change(
        &self,
        name: &str,
        change: impl FnOnce(&mut SimulatedDomain) -> Result<Vec<Event>>,
    ) -> Result<()> {
        let event_order = lock(&self.event_order);
        let mut domains = lock(&self.domains);
        let domain = domains.get_mut(name).ok_or_else(|| no_domain(name))?;
        let events = change(domain)?;
        domains.retain(|_, domain| !domain.is_gone());
        drop(domains);
        for event in &events {
            self.publish(event);
        }
        drop(event_order);
        Ok(())
    }

    /// Adds a domain or replaces its persistent configuration; returns its UUID.
    pub(super) fn define(&self, mut config: DefinitionXml) -> Result<String> {
        let event_order = lock(&self.event_order);
        let mut domains = lock(&self.domains);
        let name = config.name.clone();
        let uuid = config.uuid.clone().unwrap_or_else(|| self.make_uuid());
        config.set_uuid(&uuid);
        let detail = match domains.get_mut(&name) {
            Some(domain) if domain.uuid != uuid => return Err(other_uuid(domain)),
            Some(domain) => {
                domain.inactive = Some(config);
                Detail::Updated
            }
            None => {
                domains.insert(name.clone(), SimulatedDomain::new(config, uuid.clone()));
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
            state.subscribers.publish(event);
        }
    }
}

pub(super) fn no_domain(name: &str) -> Error {
    Error {
        code: code::NO_DOMAIN,
        domain: origin::QEMU,
        message: format!("Domain not found: no domain with matching name '{name}'"),
    }
}

fn other_uuid(domain: &SimulatedDomain) -> Error {
    Error {
        code: code::OPERATION_FAILED,
        domain: origin::QEMU,
        message: format!(
            "operation failed: domain '{}' already exists with uuid {}",
            domain.name, domain.uuid
        ),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
