//! The epoch, which ticks only while calls are in flight.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::Engine;

const TICK: Duration = Duration::from_millis(10);
const STACK: usize = 64 << 10;
/// How many ticks without a call end the thread: a second. A chain's hooks follow each other closely,
/// and a thread a call would cost as much as a small hook.
const LINGER: u32 = 100;

/// Advances an engine's epoch every 10 ms from a thread of its own while someone holds a
/// [`Ticking`], and for a second after. A task would not do: a guest in a loop may hold the only
/// worker there is.
#[derive(Clone)]
pub(super) struct Ticker {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    state: Mutex<State>,
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
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn start(&self) -> std::io::Result<Ticking> {
        let mut state = self.shared.state();
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) {
        let mut idle = 0;
        while !self.ends(&mut idle) {
            thread::sleep(TICK);
            self.engine.increment_epoch();
        }
    }

    /// Whoever starts a call holds the lock until it is counted, so it finds either this thread or
    /// that there is none.
    fn ends(&self, idle: &mut u32) -> bool {
        let mut state = self.state();
        *idle = if state.calls > 0 { 0 } else { *idle + 1 };
        state.thread = *idle <= LINGER;
        !state.thread
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.state().calls -= 1;
    }
}
