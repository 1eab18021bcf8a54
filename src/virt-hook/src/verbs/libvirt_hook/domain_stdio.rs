//! Reads the domain from standard input and writes it to standard output, as libvirt's hooks do.

use std::io::{self, Read, Write};

use kubevirt_api::libvirt_migration_hook_protocol::MAX_BYTES;

/// Reads the domain that libvirt passes.
pub(super) fn read_domain() -> Result<String, String> {
    read_limited(io::stdin().lock(), "standard input")
}

/// Passes the domain to use to libvirt.
pub(super) fn write_domain(xml: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(xml.as_bytes());
    written
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("standard output: {error}"))
}

/// Reads at most [`MAX_BYTES`]; `name` is that of the source in errors.
pub(super) fn read_limited(from: impl Read, name: &str) -> Result<String, String> {
    let mut text = String::new();
    from.take(MAX_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("{name}: {error}"))?;
    if text.len() > MAX_BYTES {
        return Err(format!("{name} has more than {MAX_BYTES} bytes"));
    }
    Ok(text)
}
