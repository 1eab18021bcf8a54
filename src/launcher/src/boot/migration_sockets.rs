//! The sockets through which libvirt and QEMU of a migration's source reach this pod.
//!
//! virt-handler connects to `DIR/migrationproxy/UID-PORT-source.sock`, UID being the source's VMI. With the transport
//! `Unix`, QEMU listens there itself and the directory is all that it needs. With the older one the launcher listens,
//! and pipes to the loopback ports on which QEMU then listens.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use crate::blocking::{self, NoAnswer};
use crate::paths::QEMU_USER;
use crate::unix_listener::{self, Listener};

/// Memory and devices.
const DIRECT_PORT: u16 = 49152;
/// Disks.
const BLOCK_PORT: u16 = 49153;
/// For making a directory or a socket on a tmpfs.
const DIRECTORY_TIMEOUT: Duration = Duration::from_secs(5);

/// The sockets cannot be put in place.
#[derive(Debug, thiserror::Error)]
pub enum MigrationSocketError {
    /// The directory.
    #[error("making the directory of migration sockets {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why it cannot be made.
        source: io::Error,
    },
    /// A listener of the older transport.
    #[error("listening for a migration on {path}: {source}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why it cannot be.
        source: io::Error,
    },
    /// The file system hangs.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// How the migration reaches QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// QEMU listens on the sockets itself.
    Unix,
    /// QEMU listens on loopback ports.
    Loopback {
        /// Disks are copied too.
        with_disks: bool,
    },
}

/// Sockets of one migration; dropping them closes the launcher's connections and removes the files. Where the launcher does
/// not listen, QEMU does.
#[derive(Debug, Default)]
pub(crate) struct MigrationSockets {
    listeners: Vec<(PathBuf, Listener)>,
    /// Also of QEMU, which leaves its own when it is killed.
    files: BTreeSet<PathBuf>,
}

impl Drop for MigrationSockets {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl MigrationSockets {
    /// Makes `directory`, which QEMU's user can write to, and listens there where QEMU does not. `uid` is that of the
    /// source's VMI. Listeners of an earlier attempt that are still wanted stay, with their connections.
    ///
    /// # Errors
    /// [`MigrationSocketError`] naming the path.
    pub(crate) async fn prepare(
        &mut self,
        directory: &Path,
        uid: &str,
        transport: Transport,
    ) -> Result<(), MigrationSocketError> {
        let path = directory.to_owned();
        let known: Vec<PathBuf> = self
            .listeners
            .iter()
            .map(|(path, _)| path.clone())
            .collect();
        let make = move || {
            make_directory(&path)?;
            let in_place = known.into_iter().filter(|path| path.exists());
            Ok(in_place.collect::<Vec<_>>())
        };
        let in_place = blocking::file_call(
            "making the directory of migration sockets",
            DIRECTORY_TIMEOUT,
            make,
        )
        .await?
        .map_err(|source| MigrationSocketError::Directory {
            path: directory.to_owned(),
            source,
        })?;
        let ports = match transport {
            Transport::Unix => &[][..],
            Transport::Loopback { with_disks: false } => &[DIRECT_PORT],
            Transport::Loopback { with_disks: true } => &[DIRECT_PORT, BLOCK_PORT],
        };
        let path = |port: &u16| directory.join(format!("{uid}-{port}-source.sock"));
        self.files
            .extend([DIRECT_PORT, BLOCK_PORT].iter().map(path));
        let wanted: Vec<(PathBuf, u16)> = ports.iter().map(|port| (path(port), *port)).collect();
        // What is left stays, whatever becomes of the others.
        self.listeners.retain(|(path, _)| {
            in_place.contains(path) && wanted.iter().any(|(one, _)| one == path)
        });
        for (path, port) in wanted {
            if !self.listeners.iter().any(|(one, _)| *one == path) {
                let socket = bind(path.clone()).await?;
                self.listeners.push(listen(path, port, socket)?);
            }
        }
        Ok(())
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o755).create(path)?;
    if rustix::process::geteuid().is_root() {
        chown(path, Some(QEMU_USER), Some(QEMU_USER))?;
    }
    Ok(())
}

async fn bind(path: PathBuf) -> Result<net::UnixListener, MigrationSocketError> {
    let socket = path.clone();
    let bind = move || unix_listener::bind(&socket);
    blocking::file_call("making a migration's socket", DIRECTORY_TIMEOUT, bind)
        .await?
        .map_err(|source| MigrationSocketError::Listen { path, source })
}

/// Pipes the connections of a socket to QEMU.
fn listen(
    path: PathBuf,
    port: u16,
    socket: net::UnixListener,
) -> Result<(PathBuf, Listener), MigrationSocketError> {
    let piping = move |connection| pipe(connection, port);
    match Listener::serve(socket, "a migration's connection", None, piping) {
        Ok(listener) => Ok((path, listener)),
        Err(source) => Err(MigrationSocketError::Listen { path, source }),
    }
}

async fn pipe(mut connection: UnixStream, port: u16) {
    let piped = async {
        let mut qemu = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        tokio::io::copy_bidirectional(&mut connection, &mut qemu).await
    };
    if let Err(error) = piped.await {
        tracing::warn!(reason = %error, port, "piping a migration's connection to QEMU");
    }
}
