//! The domain on standard input and output, as libvirt calls a hook.

use std::io::{self, Read, Write};

use kubevirt_api::migration_hook_protocol::MAX_BYTES;

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
