//! A subscription to events, and the handler that receives them.

use std::fmt;

use crate::event::Event;

/// Receives each event of a subscription. The handler runs on the event loop's thread. For the connection's end it may
/// also run on any thread that notices the end, inside that thread's call.
///
/// A handler must return at once (send the event to a channel) and must not call libvirt: the event loop, which
/// delivers responses, is waiting for the handler, and libvirt holds locks of the connection.
pub type EventHandler = Box<dyn Fn(Event) + Send + Sync>;

/// Delivers events to its handler until it is dropped.
///
/// An event whose delivery has begun may still arrive while the subscription is dropped.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    unsubscribe: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Subscription {
    pub(crate) fn new(unsubscribe: impl FnOnce() + Send + Sync + 'static) -> Self {
        Subscription {
            unsubscribe: Some(Box::new(unsubscribe)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(unsubscribe) = self.unsubscribe.take() {
            unsubscribe();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}
