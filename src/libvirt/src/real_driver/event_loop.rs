//! libvirt's event loop: one thread for the life of the process.
//!
//! It has to be registered before the first connection is opened, or that connection neither
//! delivers events nor answers keepalive messages.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use virt_sys as sys;

use super::c_strings_and_errors;
use crate::error::{Error, Result, code, origin};

// The loop itself needs little; an event handler only sends to a channel.
const STACK: usize = 256 * 1024;
// A loop that fails at once every time must not use up a processor.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

static STARTED: OnceLock<Result<()>> = OnceLock::new();

/// Starts the loop, once; later calls return the same result.
pub(super) fn ensure() -> Result<()> {
    STARTED.get_or_init(start).clone()
}

fn start() -> Result<()> {
    c_strings_and_errors::silence();
    // SAFETY: no arguments; initialising more than once is allowed.
    c_strings_and_errors::check(unsafe { sys::virInitialize() })?;
    // SAFETY: no arguments; runs once (OnceLock) and before any connection is opened.
    c_strings_and_errors::check(unsafe { sys::virEventRegisterDefaultImpl() })?;
    thread::Builder::new()
        .name("libvirt-events".into())
        .stack_size(STACK)
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
