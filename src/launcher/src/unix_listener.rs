//! Sockets in the file system.

use std::io;
use std::os::unix::net;
use std::path::Path;

/// Creates a socket at `path`. Replaces a socket that an earlier listener has left there. Blocking.
///
/// # Errors
/// If the socket cannot be created.
pub(crate) fn bind(path: &Path) -> io::Result<net::UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = net::UnixListener::bind(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
