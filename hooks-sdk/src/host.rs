//! What the host offers a hook while it runs.
//!
//! Natively, in unit tests, [`native`](crate::host::native) plays the host.

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For the hook's author.
    Debug,
    /// What was done.
    Info,
    /// What may surprise.
    Warn,
    /// What went wrong.
    Error,
}

/// The host's log, attributed to this hook.
pub mod log {
    use super::{Level, write};

    /// For the hook's author.
    pub fn debug(message: impl AsRef<str>) {
        write(Level::Debug, message.as_ref());
    }

    /// What was done.
    pub fn info(message: impl AsRef<str>) {
        write(Level::Info, message.as_ref());
    }

    /// What may surprise.
    pub fn warn(message: impl AsRef<str>) {
        write(Level::Warn, message.as_ref());
    }

    /// What went wrong.
    pub fn error(message: impl AsRef<str>) {
        write(Level::Error, message.as_ref());
    }
}

/// Why hooks run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The virtual machine starts here.
    Boot,
    /// It arrives from another node.
    MigrationTarget,
    /// The launcher ends.
    Shutdown,
    /// What a newer host says, or nothing.
    Other(String),
}

/// Why this hook runs.
pub fn reason() -> Reason {
    match invocation("reason").as_deref() {
        Some("boot") => Reason::Boot,
        Some("migration-target") => Reason::MigrationTarget,
        Some("shutdown") => Reason::Shutdown,
        other => Reason::Other(other.unwrap_or_default().to_owned()),
    }
}

/// A fact about this call: `reason`, `hook-point`, `hook`, `namespace`, `name`, `uid`, `domain`,
/// `host`. None when the host does not know the key.
pub fn invocation(key: &str) -> Option<String> {
    imports::invocation(key)
}

/// A value that whoever deployed the hook configured for it.
pub fn config(key: &str) -> Option<String> {
    imports::config(key)
}

fn write(level: Level, message: &str) {
    imports::log(level, message);
}

/// Tells the host where and why the hook panics, before it does.
#[cfg(target_family = "wasm")]
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| log::error(panic.to_string())));
}

#[cfg(target_family = "wasm")]
mod imports {
    use super::Level;
    use crate::bindings::kubevirt::hooks::host;

    pub(super) fn log(level: Level, message: &str) {
        let level = match level {
            Level::Debug => host::Level::Debug,
            Level::Info => host::Level::Info,
            Level::Warn => host::Level::Warn,
            Level::Error => host::Level::Error,
        };
        host::log(level, message);
    }

    pub(super) fn invocation(key: &str) -> Option<String> {
        host::invocation(key)
    }

    pub(super) fn config(key: &str) -> Option<String> {
        host::config(key)
    }
}

#[cfg(not(target_family = "wasm"))]
use native as imports;

/// The host that a hook meets in native unit tests: one per thread, empty at first.
#[cfg(not(target_family = "wasm"))]
pub mod native {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::Level;

    #[derive(Default)]
    struct Host {
        log: Vec<(Level, String)>,
        invocation: BTreeMap<String, String>,
        config: BTreeMap<String, String>,
    }

    thread_local! {
        static HOST: RefCell<Host> = RefCell::default();
    }

    /// Sets a fact that [`invocation`](super::invocation) gives.
    pub fn set_invocation(key: &str, value: &str) {
        HOST.with_borrow_mut(|host| host.invocation.insert(key.to_owned(), value.to_owned()));
    }

    /// Sets a value that [`config`](super::config) gives.
    pub fn set_config(key: &str, value: &str) {
        HOST.with_borrow_mut(|host| host.config.insert(key.to_owned(), value.to_owned()));
    }

    /// Forgets everything that was set and logged.
    pub fn reset() {
        HOST.take();
    }

    /// What was logged since the last call.
    pub fn take_log() -> Vec<(Level, String)> {
        HOST.with_borrow_mut(|host| std::mem::take(&mut host.log))
    }

    pub(super) fn log(level: Level, message: &str) {
        HOST.with_borrow_mut(|host| host.log.push((level, message.to_owned())));
    }

    pub(super) fn invocation(key: &str) -> Option<String> {
        HOST.with_borrow(|host| host.invocation.get(key).cloned())
    }

    pub(super) fn config(key: &str) -> Option<String> {
        HOST.with_borrow(|host| host.config.get(key).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_test_plays_the_host() {
        assert_eq!(config("colour"), None);
        native::set_config("colour", "blue");
        native::set_invocation("reason", "boot");
        log::info("painting");
        assert_eq!(config("colour").as_deref(), Some("blue"));
        assert_eq!(reason(), Reason::Boot);
        assert_eq!(native::take_log(), [(Level::Info, "painting".to_owned())]);
    }
}
