//! Replaces the host in native unit tests: one per thread, empty at first.

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

/// Sets a value for [`invocation`](super::invocation).
pub fn set_invocation(key: &str, value: &str) {
    HOST.with_borrow_mut(|host| host.invocation.insert(key.to_owned(), value.to_owned()));
}

/// Sets a value for [`config`](super::config).
pub fn set_config(key: &str, value: &str) {
    HOST.with_borrow_mut(|host| host.config.insert(key.to_owned(), value.to_owned()));
}

/// Removes all values and log lines.
pub fn reset() {
    HOST.take();
}

/// Removes and returns the log lines.
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
