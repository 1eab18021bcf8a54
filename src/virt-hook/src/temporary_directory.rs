//! Temporary directories that are removed when they are dropped, and when a signal ends the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::low_level::emulate_default_handler;
use tempfile::{Builder, TempDir};
use tokio::signal::unix::{SignalKind, signal};

/// The directories that exist.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

const REMOVALS: u32 = 5;
/// How long a removed directory must stay away.
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A directory of this process.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory(TempDir);

impl TemporaryDirectory {
    /// Creates one where temporary files belong.
    pub(crate) fn new() -> io::Result<Self> {
        Self::register(|| Builder::new().tempdir())
    }

    /// Creates one in another directory, so that its content can be renamed into that.
    pub(crate) fn new_in(directory: &Path, prefix: &str) -> io::Result<Self> {
        Self::register(|| Builder::new().prefix(prefix).tempdir_in(directory))
    }

    fn register(create: impl FnOnce() -> io::Result<TempDir>) -> io::Result<Self> {
        let mut directories = directories();
        let created = create()?;
        directories.push(created.path().to_owned());
        Ok(Self(created))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // The directory itself is removed after this.
        directories().retain(|path| path != self.0.path());
    }
}

fn directories() -> MutexGuard<'static, Vec<PathBuf>> {
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the signals that end a program remove the directories before. Signals that the program was started to ignore, by
/// nohup or in the background of a script, stay ignored. Without this, the directories stay; so a failure is no error.
pub(crate) fn remove_on_signals() {
    let ignored = ignored_signals(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::terminate(),
    ];
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let Ok(runtime) = builder.enable_io().build() else {
        return;
    };
    // From here on, none of the signals ends the program by itself.
    let context = runtime.enter();
    let mut signals = tokio::task::JoinSet::new();
    for kind in kinds {
        if !is_in(ignored, kind)
            && let Ok(mut signal) = signal(kind)
        {
            let received = async move {
                signal.recv().await;
                kind
            };
            signals.spawn_on(received, runtime.handle());
        }
    }
    drop(context);
    let wait = move || {
        if let Some(Ok(kind)) = runtime.block_on(signals.join_next()) {
            // Nobody makes another one: the lock is held until the end.
            let directories = directories();
            directories.iter().for_each(|path| remove(path));
            let _ = emulate_default_handler(kind.as_raw_value());
        }
    };
    let _ = thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait);
}

/// Removes a directory for good: the other threads still run, and may make it, or what is in it, again.
fn remove(directory: &Path) {
    for _ in 0..REMOVALS {
        let _ = fs::remove_dir_all(directory);
        thread::sleep(REMOVAL_PAUSE);
        if !directory.exists() {
            return;
        }
    }
}

/// The mask of ignored signals in `/proc/self/status`.
fn ignored_signals(status: &str) -> u64 {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

fn is_in(mask: u64, kind: SignalKind) -> bool {
    let bit = u32::try_from(kind.as_raw_value() - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000003\nSigCgt:\tf\n";
        let ignored = ignored_signals(status);
        assert!(is_in(ignored, SignalKind::hangup()) && is_in(ignored, SignalKind::interrupt()));
        assert!(!is_in(ignored, SignalKind::terminate()));
        assert!(!is_in(ignored_signals(""), SignalKind::hangup()));
    }
}
