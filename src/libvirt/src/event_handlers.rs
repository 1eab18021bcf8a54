//! The event handlers of one connection.
//!
//! libvirt accepts each callback only once per connection, so one registration serves all handlers.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::event::Event;
use crate::event_subscription::EventHandler;

/// The handlers of a connection. Handlers whose subscription was dropped are removed.
#[derive(Default)]
pub(crate) struct EventHandlers(Mutex<Vec<Weak<EventHandler>>>);

impl EventHandlers {
    /// Adds a handler. It receives events as long as the result lives.
    pub(crate) fn add(&self, handler: EventHandler) -> Arc<EventHandler> {
        let handler = Arc::new(handler);
        self.lock().push(Arc::downgrade(&handler));
        handler
    }

    /// Calls all handlers, in the order in which they were added. No lock is held during the calls, and a handler that
    /// panics does not keep the event from the next one.
    pub(crate) fn publish(&self, event: &Event) {
        for handler in self.current() {
            catch_panic(|| handler(event.clone()));
        }
    }

    fn current(&self) -> Vec<Arc<EventHandler>> {
        let mut handlers = self.lock();
        handlers.retain(|handler| handler.strong_count() > 0);
        handlers.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<EventHandler>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `run`. A panic in it is logged and does not reach the caller.
pub(crate) fn catch_panic(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        // Dropping the payload could panic again.
        mem::forget(panic);
        let _ = catch_unwind(|| tracing::error!("an event handler panicked; its event is lost"));
    }
}
