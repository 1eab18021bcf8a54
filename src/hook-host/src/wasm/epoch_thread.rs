//! The thread that advances the engine's epoch while calls are in flight.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::Engine;

/// Interval between two increments of the epoch.
const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// Stack size of the thread in bytes.
const STACK_BYTES: usize = 64 << 10;
/// Number of ticks without a call after which the thread ends: one second. The calls of a chain follow each
/// other closely, and starting a thread per call would cost as much as a small hook.
const LINGER_TICKS: u32 = 100;

/// Advances an engine's epoch every 10 ms on its own thread while a [`CallGuard`] exists, and for
/// one second after. A tokio task would not do: a guest in a loop may block the only worker thread.
#[derive(Clone)]
pub(super) struct EpochThread {
    shared: Arc<SharedState>,
}

struct SharedState {
    engine: Engine,
    state: Mutex<ThreadState>,
}

#[derive(Default)]
struct ThreadState {
    calls: usize,
    has_thread: bool,
}

/// A call in progress. The epoch advances as long as it exists.
pub(super) struct CallGuard(Arc<SharedState>);

impl EpochThread {
    pub(super) fn new(engine: Engine) -> Self {
        let shared = SharedState {
            engine,
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn begin_call(&self) -> std::io::Result<CallGuard> {
        let mut state = self.shared.state();
        if !state.has_thread {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new()
                .name("hook-epoch".into())
                .stack_size(STACK_BYTES);
            builder.spawn(move || shared.run())?;
            state.has_thread = true;
        }
        state.calls += 1;
        Ok(CallGuard(Arc::clone(&self.shared)))
    }
}

impl SharedState {
    fn state(&self) -> MutexGuard<'_, ThreadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut idle_ticks = 0;
        while !self.is_last_tick(&mut idle_ticks) {
            thread::sleep(TICK_INTERVAL);
            self.engine.increment_epoch();
        }
    }

    /// Counts a tick, and returns whether the thread ends now. `begin_call` holds the lock until the call is counted,
    /// so it finds either a running thread or none.
    fn is_last_tick(&self, idle_ticks: &mut u32) -> bool {
        let mut state = self.state();
        *idle_ticks = if state.calls > 0 { 0 } else { *idle_ticks + 1 };
        state.has_thread = *idle_ticks <= LINGER_TICKS;
        !state.has_thread
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.state().calls -= 1;
    }
}
