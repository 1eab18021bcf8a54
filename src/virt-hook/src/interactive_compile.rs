//! Compiling modules on a developer's machine: higher limits than in a launcher, because no virtual
//! machine waits, and a progress line on a terminal.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use hook_host::wasm::{CompileError, LoadError, LoadOptions};
use hook_host::{Compiler, Limits};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::compiled_module_cache::CompiledModuleCache;
use crate::exit_codes::Failure;
use crate::output;

/// Name and version of the host for hooks that query it.
pub(crate) const HOST: &str = concat!("virt-hook/", env!("CARGO_PKG_VERSION"));
/// Limits of wall-clock and processor time that only an endless compilation reaches.
const DEADLINE: Duration = Duration::from_secs(600);
const PROCESSOR_TIME: Duration = Duration::from_secs(120);
/// Shorter compilations show no progress.
const QUIET: Duration = Duration::from_secs(1);
/// Nobody misses what shorter compilations would save.
const LONG: Duration = Duration::from_secs(5);

/// A launcher's limits, with more time to compile.
pub(crate) fn limits() -> Limits {
    Limits {
        compile_deadline: DEADLINE,
        compile_processor_time: PROCESSOR_TIME,
        ..Limits::default()
    }
}

/// Options to load modules. Compiled code is kept in `kept`, if given.
pub(crate) fn options(kept: Option<PathBuf>) -> Result<LoadOptions> {
    let program = std::env::current_exe().context("finding this program")?;
    Ok(LoadOptions {
        limits: limits(),
        compiler: Compiler::Child { program },
        artifacts_dir: kept,
        host_name: HOST.to_owned(),
        ..LoadOptions::default()
    })
}

/// Runs `work`, which compiles a module, and shows progress on a terminal. Warns after a long one if the next run has to do
/// the same again.
pub(crate) async fn with_progress<T>(module: &Path, work: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let done = shown(module, work).await;
    if started.elapsed() > LONG
        && let Err(reason) = CompiledModuleCache::open_of_user()
    {
        output::warn(&format!(
            "compiled modules are not kept, so that each run compiles them again: {reason}"
        ));
    }
    done
}

async fn shown<T>(module: &Path, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let name = module.file_name().unwrap_or(module.as_os_str());
    let mut line = ProgressLine::new(format!("compiling {}", name.to_string_lossy()));
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

/// A progress line on standard error. Erased on drop.
struct ProgressLine {
    text: String,
    shown: usize,
}

impl ProgressLine {
    fn new(text: String) -> Self {
        Self { text, shown: 0 }
    }

    fn show(&mut self, since: Duration) {
        let text = format!("{}: {} s", self.text, since.as_secs());
        self.shown = text.chars().count();
        write(&format!("\r{text}"));
    }
}

impl Drop for ProgressLine {
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

/// Replaces the remedy of an error, which is meant for a launcher, by one for a developer.
pub(crate) fn explain(error: LoadError) -> Error {
    match error {
        LoadError::Compile {
            path,
            size,
            source: CompileError::LimitExceeded(limit),
        } => anyhow!(
            "{} ({size} bytes): compiling it takes more than {limit}: end what else runs here and \
             try again, or take a larger machine or a smaller module",
            path.display()
        ),
        error => error.into(),
    }
}

/// [`explain`], if the error is about loading a module.
pub(crate) fn explain_any(error: Error) -> Error {
    match error.downcast() {
        Ok(error) => explain(error),
        Err(error) => error,
    }
}

/// The failure of a verb that cannot use a module, with a developer's remedy.
pub(crate) fn unusable(error: LoadError) -> Failure {
    Failure::of_load(error).map(explain_any)
}

/// The limit that a compilation exceeded, or the whole error if it is another one.
pub(crate) fn exceeded_limit(error: &LoadError) -> String {
    match error {
        LoadError::Compile {
            source: CompileError::LimitExceeded(limit),
            ..
        } => format!("it takes more than {limit}"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compile_timeout_is_not_explained_with_compiling_ahead() {
        let error = LoadError::Compile {
            path: "ticket.wasm".into(),
            size: 7,
            source: CompileError::LimitExceeded("600s".to_owned()),
        };
        let text = explain(error).to_string();
        assert!(
            text.starts_with("ticket.wasm (7 bytes): compiling it takes more than 600s: end what"),
            "{text}"
        );
        assert!(!text.contains("virt-hook compile"), "{text}");
    }

    #[test]
    fn calls_have_a_launchers_limits() {
        let limits = limits();
        assert!(limits.compile_deadline > Limits::default().compile_deadline);
        assert_eq!(limits.call_deadline, Limits::default().call_deadline);
        assert_eq!(limits.memory, Limits::default().memory);
        assert_eq!(limits.compile_memory, Limits::default().compile_memory);
    }
}
