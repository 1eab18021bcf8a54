//! What the demo prints while it runs: one line per happening, with its time and who it is about.

use std::io::{IsTerminal, Write, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A cheap handle on the one timeline.
#[derive(Clone)]
pub(crate) struct Timeline {
    state: Arc<Mutex<State>>,
}

struct State {
    begin: Instant,
    last: Instant,
    /// Whether the cursor stands behind a waiting line.
    waiting: bool,
}

impl Timeline {
    pub(crate) fn begin() -> Timeline {
        let now = Instant::now();
        Timeline {
            state: Arc::new(Mutex::new(State {
                begin: now,
                last: now,
                waiting: false,
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One happening; a further line of `text` is indented below the first.
    pub(crate) fn say(&self, who: &str, text: &str) {
        let mut state = self.state();
        clear(&mut state);
        let seconds = state.begin.elapsed().as_secs_f64();
        for (number, line) in text.lines().enumerate() {
            match number {
                0 => println!("{seconds:>8.3} s  {who:<12} {line}"),
                _ => println!("{:24}{line}", ""),
            }
        }
        state.last = Instant::now();
    }

    /// Says that nothing is wrong when nothing happens; on a terminal only one line, again and again.
    pub(crate) fn progress(&self, what: &str) {
        let mut state = self.state();
        let quiet = state.last.elapsed();
        let seconds = state.begin.elapsed().as_secs_f64();
        if stdout().is_terminal() && quiet > Duration::from_millis(700) {
            print!("\r\x1b[K{seconds:>8.1} s  ... {what}");
            let _ = stdout().flush();
            state.waiting = true;
        } else if quiet > Duration::from_secs(5) {
            println!("{seconds:>8.1} s  ... {what}");
            state.last = Instant::now();
        }
    }

    pub(crate) fn end(&self) {
        clear(&mut self.state());
    }
}

fn clear(state: &mut State) {
    if std::mem::take(&mut state.waiting) {
        print!("\r\x1b[K");
    }
}
