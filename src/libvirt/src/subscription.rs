//! A subscription to events, and the handler that receives them.

use std::fmt;

use crate::event::Event;

/// Receives every event of a subscription. It runs on the event loop's thread; for the connection's
/// end it may run on any thread that finds the connection closed, inside that thread's call.
///
/// It must return at once (hand the event to a channel) and must not call libvirt: the event loop
/// that would carry the answer is waiting for the handler, and locks of the connection are held.
pub type EventHandler = Box<dyn Fn(Event) + Send + Sync>;

/// Delivers events to its handler until it is dropped.
///
/// An event that is already being delivered may still arrive while it is dropped.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Subscription {
    pub(crate) fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Subscription {
            end: Some(Box::new(end)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}
