//! The epoch, which ticks only while calls are in flight.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::Engine;

const TICK: Duration = Duration::from_millis(10);
const STACK: usize = 64 << 10;

/// Advances an engine's epoch every 10 ms from a thread of its own for as long as someone holds a
/// [`Ticking`]. A task would not do: a guest in a loop may hold the only worker there is.
#[derive(Clone)]
pub(super) struct Ticker {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    calls: usize,
    thread: bool,
}

/// A call in flight.
pub(super) struct Ticking(Arc<Shared>);

impl Ticker {
    pub(super) fn new(engine: Engine) -> Self {
        let shared = Shared {
            engine,
            state: Mutex::default(),
            idle: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn start(&self) -> std::io::Result<Ticking> {
        let mut state = self
            .shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !state.thread {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new()
                .name("hook-epoch".into())
                .stack_size(STACK);
            builder.spawn(move || shared.tick())?;
            state.thread = true;
        }
        state.calls += 1;
        Ok(Ticking(Arc::clone(&self.shared)))
    }
}

impl Shared {
    fn tick(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever starts a call holds the lock until it is counted, so 0 here means "the last ended".
        while state.calls > 0 {
            state = self
                .idle
                .wait_timeout(state, TICK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            self.engine.increment_epoch();
        }
        state.thread = false;
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.calls -= 1;
        if state.calls == 0 {
            self.0.idle.notify_all();
        }
    }
}
