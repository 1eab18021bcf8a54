//! libvirt's event loop, which one thread runs for the life of the process.
//!
//! The event loop must be registered before the first connection is opened: otherwise that connection neither delivers
//! events nor answers keepalive messages.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use virt_sys as sys;

use super::c_strings_and_errors;
use crate::error::{Error, Result, code, origin};

/// Stack size of the thread in bytes. The loop needs little, and event handlers only send to a channel.
const STACK_SIZE: usize = 256 * 1024;
/// Pause after an iteration that failed, so that a loop that always fails at once does not use up a CPU.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

static STARTED: OnceLock<Result<()>> = OnceLock::new();

/// Starts the event loop on the first call. Later calls return the result of the first.
pub(super) fn start_once() -> Result<()> {
    STARTED.get_or_init(start).clone()
}

fn start() -> Result<()> {
    c_strings_and_errors::disable_error_output();
    // SAFETY: no arguments; initialising more than once is allowed.
    c_strings_and_errors::check(unsafe { sys::virInitialize() })?;
    // SAFETY: no arguments; runs once (OnceLock) and before any connection is opened.
    c_strings_and_errors::check(unsafe { sys::virEventRegisterDefaultImpl() })?;
    thread::Builder::new()
        .name("libvirt-events".into())
        .stack_size(STACK_SIZE)
        .spawn(run)
        .map(drop)
        .map_err(|error| Error {
            code: code::SYSTEM_ERROR,
            domain: origin::NONE,
            message: format!("cannot start the thread of libvirt's event loop: {error}"),
        })
}

fn run() {
    loop {
        // SAFETY: the default implementation is registered, and only this thread runs it.
        if let Err(error) = c_strings_and_errors::check(unsafe { sys::virEventRunDefaultImpl() }) {
            tracing::warn!(%error, "libvirt's event loop failed a turn");
            thread::sleep(PAUSE_AFTER_FAILURE);
        }
    }
}
