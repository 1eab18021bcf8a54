//! The domain on standard input and output, as libvirt calls a hook, and a deadline for what happens between.

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kubevirt_api::libvirt_hook_protocol::MAX_BYTES;

/// The domain that libvirt writes to standard input.
pub(super) fn read_domain() -> Result<String, String> {
    read_limited(io::stdin().lock(), "standard input")
}

/// Gives libvirt the domain to use.
pub(super) fn write_domain(xml: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(xml.as_bytes());
    written
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("standard output: {error}"))
}

/// The result of `work`, whose thread ends with the process if it is too late.
pub(super) fn within<T: Send + 'static>(
    deadline: Duration,
    missing: &str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        // Nobody waits any more when it is too late.
        let _ = done.send(work());
    });
    waiting
        .recv_timeout(deadline)
        .map_err(|_| format!("{missing} within {deadline:?}"))?
}

pub(super) fn read_limited(from: impl Read, what: &str) -> Result<String, String> {
    let mut text = String::new();
    from.take(MAX_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("{what}: {error}"))?;
    if text.len() > MAX_BYTES {
        return Err(format!("{what} has more than {MAX_BYTES} bytes"));
    }
    Ok(text)
}
