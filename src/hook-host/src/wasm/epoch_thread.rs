//! The thread that advances the engine's epoch while calls are in flight.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::Engine;

const TICK: Duration = Duration::from_millis(10);
const STACK: usize = 64 << 10;
/// The thread ends after this many ticks without a call: one second. The hooks of a chain follow each
/// other closely, and a thread per call would cost as much as a small hook.
const LINGER: u32 = 100;

/// Advances an engine's epoch every 10 ms from its own thread while a [`CallGuard`] exists, and for
/// one second after. A tokio task is not enough: a guest in a loop may block the only worker thread.
#[derive(Clone)]
pub(super) struct EpochTicker {
    shared: Arc<EpochState>,
}

struct EpochState {
    engine: Engine,
    state: Mutex<TickerState>,
}

#[derive(Default)]
struct TickerState {
    calls: usize,
    thread: bool,
}

/// A call in flight.
pub(super) struct CallGuard(Arc<EpochState>);

impl EpochTicker {
    pub(super) fn new(engine: Engine) -> Self {
        let shared = EpochState {
            engine,
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn begin_call(&self) -> std::io::Result<CallGuard> {
        let mut state = self.shared.state();
        if !state.thread {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new()
                .name("hook-epoch".into())
                .stack_size(STACK);
            builder.spawn(move || shared.run())?;
            state.thread = true;
        }
        state.calls += 1;
        Ok(CallGuard(Arc::clone(&self.shared)))
    }
}

impl EpochState {
    fn state(&self) -> MutexGuard<'_, TickerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut idle = 0;
        while !self.should_stop(&mut idle) {
            thread::sleep(TICK);
            self.engine.increment_epoch();
        }
    }

    /// `begin_call` holds the lock until the call is counted, so it sees either a running thread or
    /// none.
    fn should_stop(&self, idle: &mut u32) -> bool {
        let mut state = self.state();
        *idle = if state.calls > 0 { 0 } else { *idle + 1 };
        state.thread = *idle <= LINGER;
        !state.thread
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.state().calls -= 1;
    }
}
