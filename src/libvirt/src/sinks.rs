//! Everybody who listens to one connection.
//!
//! libvirt takes each callback only once per connection, so one registration serves all of them.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::event::{Event, EventSink};

/// The sinks of a connection; one that its subscriber has dropped is forgotten.
#[derive(Default)]
pub(crate) struct Sinks(Mutex<Vec<Weak<EventSink>>>);

impl Sinks {
    /// Adds a sink for as long as the result lives.
    pub(crate) fn add(&self, sink: EventSink) -> Arc<EventSink> {
        let sink = Arc::new(sink);
        self.lock().push(Arc::downgrade(&sink));
        sink
    }

    /// Tells everybody, in the order in which they came. No lock is held meanwhile, and one
    /// sink's panic is not the next one's loss.
    pub(crate) fn tell(&self, event: &Event) {
        for sink in self.current() {
            contain(|| sink(event.clone()));
        }
    }

    fn current(&self) -> Vec<Arc<EventSink>> {
        let mut sinks = self.lock();
        sinks.retain(|sink| sink.strong_count() > 0);
        sinks.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<EventSink>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs what may panic where a panic must go no further: the log has it, the caller goes on.
pub(crate) fn contain(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        // Dropping the payload could panic again.
        mem::forget(panic);
        let _ = catch_unwind(|| tracing::error!("an event sink panicked; its event is lost"));
    }
}
