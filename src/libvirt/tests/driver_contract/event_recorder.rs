//! Recording of a domain's events.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use libvirt::{Event, HypervisorConnection, Subscription};

/// Records the events of one domain, and of its connection's end.
pub(crate) struct EventRecorder {
    events: Receiver<Event>,
    _subscription: Subscription,
}

impl EventRecorder {
    /// Subscribes to the events.
    pub(crate) fn subscribe(hypervisor: &dyn HypervisorConnection, domain: &'static str) -> Self {
        let (sender, events) = channel();
        let sender = Mutex::new(sender);
        let subscription = hypervisor
            .subscribe(Box::new(move |event| {
                if event.domain().is_none_or(|name| name == domain) {
                    let _ = sender.lock().unwrap().send(event);
                }
            }))
            .unwrap();
        EventRecorder {
            events,
            _subscription: subscription,
        }
    }

    /// The next lifecycle events: waits for `count` of them, and 100 ms longer for surplus ones.
    pub(crate) fn lifecycle(&self, count: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut received = Vec::new();
        loop {
            let timeout = if received.len() < count {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::from_millis(100)
            };
            match self.events.recv_timeout(timeout) {
                Ok(Event::Lifecycle { event, detail, .. }) => {
                    received.push(format!("{event:?} {detail:?}"))
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return received,
            }
        }
    }

    /// Waits for the first event for which `select` returns a value. `None` if there is none within 20 s.
    pub(crate) fn first<T>(&self, select: impl Fn(&Event) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let timeout = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(timeout).ok()?;
            if let Some(value) = select(&event) {
                return Some(value);
            }
        }
    }
}
