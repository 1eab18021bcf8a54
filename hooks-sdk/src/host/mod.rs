//! Functions of the host: log, configuration, context of the call.
//!
//! In native unit tests, [`native`] replaces the host.

use std::fmt;

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// Details for the hook's author.
    Debug,
    /// What the hook did.
    Info,
    /// Something unexpected.
    Warn,
    /// An error.
    Error,
}

/// The level in lower case: `debug`, `info`, `warn`, `error`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        })
    }
}

/// The host's log; lines have this hook's name.
///
/// ```
/// use hooks_sdk::host::{Level, log, native};
///
/// log::info(format!("{} queues", 4));
/// // In a native test:
/// assert_eq!(native::take_log(), [(Level::Info, "4 queues".to_owned())]);
/// ```
pub mod log {
    use super::{Level, write};

    /// Details for the hook's author.
    pub fn debug(message: impl AsRef<str>) {
        write(Level::Debug, message.as_ref());
    }

    /// What the hook did.
    pub fn info(message: impl AsRef<str>) {
        write(Level::Info, message.as_ref());
    }

    /// Something unexpected.
    pub fn warn(message: impl AsRef<str>) {
        write(Level::Warn, message.as_ref());
    }

    /// An error.
    pub fn error(message: impl AsRef<str>) {
        write(Level::Error, message.as_ref());
    }
}

/// The reason of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The virtual machine starts here.
    Boot,
    /// It migrates here from another node.
    MigrationTarget,
    /// It runs, and a device is attached.
    Hotplug,
    /// It migrates to another node.
    MigrationSource,
    /// The launcher ends.
    Shutdown,
    /// A reason that this version of the SDK does not know, or none; [`Reason::as_str`] has its name. A later version
    /// may give it a variant, so compare the name, and not this variant.
    #[non_exhaustive]
    Other(String),
}

impl Reason {
    /// The host's name of the reason, such as `migration-target`; empty if there is none.
    ///
    /// ```
    /// # use hooks_sdk::host;
    /// host::native::set_invocation("reason", "nap");
    /// assert_eq!(host::reason().as_str(), "nap");
    /// ```
    pub fn as_str(&self) -> &str {
        match self {
            Reason::Boot => "boot",
            Reason::MigrationTarget => "migration-target",
            Reason::Hotplug => "hotplug",
            Reason::MigrationSource => "migration-source",
            Reason::Shutdown => "shutdown",
            Reason::Other(name) => name,
        }
    }
}

/// The host's name of the reason.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason of this call.
///
/// ```
/// use hooks_sdk::host::{self, Reason};
///
/// host::native::set_invocation("reason", "migration-target");
/// if host::reason() == Reason::MigrationTarget {
///     // The guest that arrives keeps the devices that it left with.
/// }
/// # assert_eq!(host::reason(), Reason::MigrationTarget);
/// ```
pub fn reason() -> Reason {
    match invocation("reason").as_deref() {
        Some("boot") => Reason::Boot,
        Some("migration-target") => Reason::MigrationTarget,
        Some("hotplug") => Reason::Hotplug,
        Some("migration-source") => Reason::MigrationSource,
        Some("shutdown") => Reason::Shutdown,
        other => Reason::Other(other.unwrap_or_default().to_owned()),
    }
}

/// A value of the call's context: `reason`, `hook-point`, `hook`, `namespace`, `name`, `uid`, `domain`,
/// `host`. `None` if the host does not know the key.
///
/// ```
/// use hooks_sdk::host;
///
/// host::native::set_invocation("domain", "ns_vm");
/// assert_eq!(host::invocation("domain").as_deref(), Some("ns_vm"));
/// ```
pub fn invocation(key: &str) -> Option<String> {
    imports::invocation(key)
}

/// A configuration value of this hook, from `hook.yaml`; `None` if it is not set. The hook declares its keys with
/// [`Description::with_config`](crate::Description::with_config).
///
/// ```
/// use hooks_sdk::{Context, Result, host};
///
/// fn queues() -> Result<u8> {
///     match host::config("queues") {
///         Some(text) => text.parse().context("the configuration key queues"),
///         None => Ok(4),
///     }
/// }
///
/// assert_eq!(queues()?, 4);
/// host::native::set_config("queues", "8");
/// assert_eq!(queues()?, 8);
/// # Ok::<(), hooks_sdk::Error>(())
/// ```
pub fn config(key: &str) -> Option<String> {
    imports::config(key)
}

fn write(level: Level, message: &str) {
    imports::log(level, message);
}

/// Notes, in native tests, that a hook point is the trait's own and not the hook's.
pub(crate) fn note_provided_method() {
    #[cfg(not(target_family = "wasm"))]
    native::note_provided_method();
}

/// Logs the text and place of a panic.
#[cfg(target_family = "wasm")]
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| log::error(panic.to_string())));
}

#[cfg(target_family = "wasm")]
mod imports {
    use super::Level;
    use crate::bindings::virt_hook::hooks0_1_0::host;

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
pub mod native;
#[cfg(not(target_family = "wasm"))]
use native as imports;

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
        for name in [
            "boot",
            "migration-target",
            "hotplug",
            "migration-source",
            "shutdown",
            "nap",
        ] {
            native::set_invocation("reason", name);
            assert_eq!(reason().as_str(), name);
        }
        assert_eq!(native::take_log(), [(Level::Info, "painting".to_owned())]);
    }
}
