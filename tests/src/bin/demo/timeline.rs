//! The timeline that the demo prints: one line per event, with its time and its source.

use std::io::{IsTerminal, Write, stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A handle of the timeline, cheap to clone.
#[derive(Clone)]
pub(crate) struct Timeline {
    state: Arc<Mutex<State>>,
}

struct State {
    begin: Instant,
    last_output: Instant,
    /// The width of the column that names the source of an event.
    width: usize,
    /// Whether the terminal's current line is a progress line, which the next event overwrites.
    has_progress_line: bool,
}

impl Timeline {
    pub(crate) fn begin(width: usize) -> Timeline {
        let now = Instant::now();
        Timeline {
            state: Arc::new(Mutex::new(State {
                begin: now,
                last_output: now,
                width,
                has_progress_line: false,
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints one event. Further lines of `text` are indented.
    pub(crate) fn print(&self, source: &str, text: &str) {
        let mut state = self.state();
        clear(&mut state);
        let (seconds, width) = (state.begin.elapsed().as_secs_f64(), state.width);
        for (number, line) in text.lines().enumerate() {
            match number {
                0 => println!("{seconds:>8.3} s  {source:<width$} {line}"),
                _ => println!("{:1$}{line}", "", 12 + width),
            }
        }
        state.last_output = Instant::now();
    }

    /// Shows that the demo is still waiting. On a terminal, the same line is rewritten.
    pub(crate) fn progress(&self, what: &str) {
        let mut state = self.state();
        let since_last_event = state.last_output.elapsed();
        let seconds = state.begin.elapsed().as_secs_f64();
        if stdout().is_terminal() && since_last_event > Duration::from_millis(700) {
            print!("\r\x1b[K{seconds:>8.1} s  ... {what}");
            let _ = stdout().flush();
            state.has_progress_line = true;
        } else if since_last_event > Duration::from_secs(5) {
            println!("{seconds:>8.1} s  ... {what}");
            state.last_output = Instant::now();
        }
    }

    pub(crate) fn end(&self) {
        clear(&mut self.state());
    }
}

fn clear(state: &mut State) {
    if std::mem::take(&mut state.has_progress_line) {
        print!("\r\x1b[K");
    }
}
