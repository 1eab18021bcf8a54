//! Contracts that the fake daemon, libvirt's test driver and real QEMU have to keep, and an event recorder.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its part"
)]

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libvirt::{Domain, Event, HypervisorConnection, Subscription};

pub(crate) mod domain_lifecycle;
pub(crate) mod memory_dump_contract;

/// Collects events and waits for them.
pub(crate) struct Recorder {
    events: Receiver<Event>,
    _subscription: Subscription,
}

impl Recorder {
    /// Everything about one domain.
    pub(crate) fn on(hypervisor: &dyn HypervisorConnection, domain: &'static str) -> Self {
        let (sender, events) = channel();
        let sender = Mutex::new(sender);
        let subscription = hypervisor
            .subscribe(Box::new(move |event| {
                if event.domain().is_none_or(|name| name == domain) {
                    let _ = sender.lock().unwrap().send(event);
                }
            }))
            .unwrap();
        Recorder {
            events,
            _subscription: subscription,
        }
    }

    /// Waits until `count` lifecycle events have come, and 100 ms more for surplus ones.
    pub(crate) fn lifecycle(&self, count: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut seen = Vec::new();
        loop {
            let left = if seen.len() < count {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::from_millis(100)
            };
            match self.events.recv_timeout(left) {
                Ok(Event::Lifecycle { event, detail, .. }) => {
                    seen.push(format!("{event:?} {detail:?}"))
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return seen,
            }
        }
    }

    /// Waits for the first event that `wanted` picks something from.
    pub(crate) fn first<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).ok()?;
            if let Some(found) = wanted(&event) {
                return Some(found);
            }
        }
    }
}

/// Waits until `done`, where no event announces it.
pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) type SharedDomain = Arc<dyn Domain>;
