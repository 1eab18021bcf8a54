//! Compiling at a desk. No virtual machine waits for it, so it may take what a slow or busy machine
//! needs; and whoever waits at a terminal is told.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use hook_host::wasm::{CompileError, LoadError, Options};
use hook_host::{Compiler, Limits};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::modules::HOST;

/// By the clock, and of each processor: what is given up after this was never going to end.
const DEADLINE: Duration = Duration::from_secs(600);
const PROCESSOR_TIME: Duration = Duration::from_secs(120);
/// Modules of a usual size are compiled before anybody wonders.
const QUIET: Duration = Duration::from_secs(1);

/// What a hook may use at a desk: a launcher's limits, and more time to compile it.
pub(crate) fn limits() -> Limits {
    Limits {
        compile_deadline: DEADLINE,
        compile_processor_time: PROCESSOR_TIME,
        ..Limits::default()
    }
}

/// How modules are loaded at a desk; what is compiled is kept in `kept`, if anywhere.
pub(crate) fn options(kept: Option<PathBuf>) -> Result<Options> {
    let program = std::env::current_exe().context("finding this program")?;
    Ok(Options {
        limits: limits(),
        compiler: Compiler::Child { program },
        artifacts_dir: kept,
        host_name: HOST.to_owned(),
        ..Options::default()
    })
}

/// Does what compiles a module, and tells on a terminal what is being waited for.
pub(crate) async fn told<T>(module: &Path, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let name = module.file_name().unwrap_or(module.as_os_str());
    let mut line = Line::new(format!("compiling {}", name.to_string_lossy()));
    let started = Instant::now();
    let mut ticks = interval_at(started + QUIET, QUIET);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => line.show(started.elapsed()),
        }
    }
}

/// A line of the terminal, which is empty again when dropped.
struct Line {
    text: String,
    shown: usize,
}

impl Line {
    fn new(text: String) -> Self {
        Self { text, shown: 0 }
    }

    fn show(&mut self, since: Duration) {
        let text = format!("{}: {} s", self.text, since.as_secs());
        self.shown = text.chars().count();
        write(&format!("\r{text}"));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown > 0 {
            write(&format!("\r{}\r", " ".repeat(self.shown)));
        }
    }
}

fn write(text: &str) {
    let mut terminal = io::stderr();
    let _ = terminal.write_all(text.as_bytes());
    let _ = terminal.flush();
}

/// The way out for whoever sits at a desk, which is not a launcher's.
pub(crate) fn explain(error: LoadError) -> Error {
    match error {
        LoadError::Compile {
            path,
            size,
            source: CompileError::TooMuch(limit),
        } => anyhow!(
            "{} ({size} bytes): compiling it takes more than {limit}: end what else runs here and \
             try again, or take a larger machine or a smaller module",
            path.display()
        ),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_not_told_to_compile_ahead() {
        let error = LoadError::Compile {
            path: "ticket.wasm".into(),
            size: 7,
            source: CompileError::TooMuch("600s".to_owned()),
        };
        let text = explain(error).to_string();
        assert!(
            text.starts_with("ticket.wasm (7 bytes): compiling it takes more than 600s: end what"),
            "{text}"
        );
        assert!(!text.contains("virt-hook compile"), "{text}");
    }

    #[test]
    fn a_call_has_no_more_than_in_a_launcher() {
        let limits = limits();
        assert!(limits.compile_deadline > Limits::default().compile_deadline);
        assert_eq!(limits.call_deadline, Limits::default().call_deadline);
        assert_eq!(limits.memory, Limits::default().memory);
        assert_eq!(limits.compile_memory, Limits::default().compile_memory);
    }
}
