//! What all connections to one fake daemon share.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::Call;
use super::definition::Definition;
use super::domain::Domain;
use crate::error::{Error, Result, code, origin};
use crate::event::{CloseReason, Detail, Event, LifecycleEvent};
use crate::sinks::Sinks;

/// How the daemon is told to behave, and what was asked of it.
#[derive(Default)]
pub(super) struct Control {
    pub(super) failures: VecDeque<(Call, Error)>,
    pub(super) delays: HashMap<Call, Duration>,
    pub(super) calls: Vec<Call>,
    pub(super) disobedient: bool,
    pub(super) down: bool,
}

/// One connection, as the daemon sees it.
#[derive(Default)]
pub(super) struct Line {
    pub(super) sinks: Sinks,
    pub(super) dead: AtomicBool,
}

#[derive(Default)]
pub(super) struct World {
    control: Mutex<Control>,
    domains: Mutex<BTreeMap<String, Domain>>,
    lines: Mutex<Vec<Weak<Line>>>,
    /// One batch of events at a time, so that two callers' events do not mix.
    telling: Mutex<()>,
    made: Mutex<u32>,
}

impl World {
    pub(super) fn control<T>(&self, with: impl FnOnce(&mut Control) -> T) -> T {
        with(&mut lock(&self.control))
    }

    /// Every call begins here: counted, delayed, refused.
    pub(super) fn enter(&self, call: Call) -> Result<()> {
        let (delay, failure) = self.control(|control| {
            control.calls.push(call);
            let failure = control
                .failures
                .iter()
                .position(|(which, _)| *which == call);
            let failure = failure.and_then(|index| control.failures.remove(index));
            (control.delays.get(&call).copied(), failure)
        });
        if let Some(delay) = delay {
            std::thread::sleep(delay);
        }
        failure.map_or(Ok(()), |(_, error)| Err(error))
    }

    pub(super) fn open(&self) -> Result<Arc<Line>> {
        self.enter(Call::Connect)?;
        if self.control(|control| control.down) {
            return Err(Error {
                code: code::SYSTEM_ERROR,
                domain: origin::RPC,
                message: "Failed to connect socket to '/var/run/libvirt/virtqemud-sock': \
                          No such file or directory"
                    .into(),
            });
        }
        let line = Arc::new(Line::default());
        lock(&self.lines).push(Arc::downgrade(&line));
        Ok(line)
    }

    pub(super) fn stop(&self, reason: CloseReason) {
        self.control(|control| control.down = true);
        let lines = std::mem::take(&mut *lock(&self.lines));
        for line in lines.iter().filter_map(Weak::upgrade) {
            line.dead.store(true, Ordering::SeqCst);
            line.sinks.tell(&Event::ConnectionClosed { reason });
        }
    }

    /// Looks at a domain, if it is there.
    pub(super) fn domain<T>(&self, name: &str, with: impl FnOnce(&mut Domain) -> T) -> Option<T> {
        lock(&self.domains).get_mut(name).map(with)
    }

    /// Something happens to a running domain; nothing if it does not run.
    pub(super) fn change(&self, name: &str, make: impl FnOnce(&mut Domain) -> Vec<Event>) {
        let _ = self.request(name, |domain| {
            if domain.is_active() {
                Ok(make(domain))
            } else {
                Ok(Vec::new())
            }
        });
    }

    /// Somebody asks something of a domain.
    pub(super) fn request(
        &self,
        name: &str,
        make: impl FnOnce(&mut Domain) -> Result<Vec<Event>>,
    ) -> Result<()> {
        let order = lock(&self.telling);
        let mut domains = lock(&self.domains);
        let domain = domains.get_mut(name).ok_or_else(|| no_domain(name))?;
        let events = make(domain)?;
        domains.retain(|_, domain| !domain.is_gone());
        drop(domains);
        for event in &events {
            self.tell(event);
        }
        drop(order);
        Ok(())
    }

    /// Adds a domain or replaces its persistent configuration; gives its UUID.
    pub(super) fn define(&self, mut definition: Definition) -> Result<String> {
        let order = lock(&self.telling);
        let mut domains = lock(&self.domains);
        let name = definition.name.clone();
        let uuid = definition.uuid.clone().unwrap_or_else(|| self.make_uuid());
        definition.set_uuid(&uuid);
        let detail = match domains.get_mut(&name) {
            Some(domain) if domain.uuid != uuid => return Err(other_uuid(domain)),
            Some(domain) => {
                domain.inactive = Some(definition);
                Detail::Updated
            }
            None => {
                domains.insert(name.clone(), Domain::new(definition, uuid.clone()));
                Detail::Added
            }
        };
        drop(domains);
        self.tell(&Event::Lifecycle {
            domain: name,
            event: LifecycleEvent::Defined,
            detail,
        });
        drop(order);
        Ok(uuid)
    }

    /// The number of a new QEMU process.
    pub(super) fn next(&self) -> u32 {
        let mut made = lock(&self.made);
        *made += 1;
        *made
    }

    fn make_uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.next())
    }

    pub(super) fn tell(&self, event: &Event) {
        let lines: Vec<_> = lock(&self.lines).iter().filter_map(Weak::upgrade).collect();
        for line in lines {
            line.sinks.tell(event);
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

fn other_uuid(domain: &Domain) -> Error {
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
