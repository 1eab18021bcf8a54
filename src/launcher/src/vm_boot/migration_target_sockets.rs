//! The sockets at which a migration's target receives the migration's data.
//!
//! virt-handler connects to `DIR/migrationproxy/UID-PORT-source.sock`, UID being that of the source's VMI. With the
//! transport `Unix`, QEMU listens there itself and needs only the directory. With the older transport the launcher
//! listens there, and copies the data to the loopback ports on which QEMU listens.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bounded_listener::{ByteListener, ConnectionHandle, limits};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use crate::blocking::{self, NoAnswer};
use crate::paths::QEMU_USER;
use crate::unix_listener;

/// Port of the migration stream (memory and device state).
const DIRECT_PORT: u16 = 49152;
/// Port of the disks' data.
const BLOCK_PORT: u16 = 49153;
/// How long making the directory or a socket, on a tmpfs, may take.
const FILE_OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The sockets could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MigrationTargetSocketError {
    /// The directory could not be made.
    #[error("making the directory of migration sockets {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Listening on a socket of the older transport failed.
    #[error("listening for a migration on {path}: {source}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why listening failed.
        source: io::Error,
    },
    /// A file system call timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// How the migration's data reach QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MigrationTransport {
    /// QEMU listens on the sockets itself.
    Unix,
    /// QEMU listens on loopback ports, and the launcher on the sockets.
    Loopback {
        /// Whether disks are copied too.
        with_disks: bool,
    },
}

/// The sockets of one migration. Dropping them closes the launcher's connections and removes all files, also those of
/// QEMU.
#[derive(Debug, Default)]
pub(crate) struct MigrationTargetSockets {
    listeners: Vec<(PathBuf, ByteListener)>,
    /// All socket files. QEMU leaves its own when it is killed.
    files: BTreeSet<PathBuf>,
}

impl Drop for MigrationTargetSockets {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl MigrationTargetSockets {
    /// Makes `directory`, which QEMU's user can write to, and listens there unless QEMU does. `uid` is that of the
    /// source's VMI. Listeners of an earlier attempt that are still needed are kept, with their connections.
    ///
    /// # Errors
    /// [`MigrationTargetSocketError`] naming the path.
    pub(crate) async fn prepare(
        &mut self,
        directory: &Path,
        uid: &str,
        transport: MigrationTransport,
    ) -> Result<(), MigrationTargetSocketError> {
        let path = directory.to_owned();
        let listening: Vec<PathBuf> = self
            .listeners
            .iter()
            .map(|(path, _)| path.clone())
            .collect();
        let make = move || {
            make_directory(&path)?;
            let existing = listening.into_iter().filter(|path| path.exists());
            Ok(existing.collect::<Vec<_>>())
        };
        let existing = blocking::file_call(
            "making the directory of migration sockets",
            FILE_OPERATION_TIMEOUT,
            make,
        )
        .await?
        .map_err(|source| MigrationTargetSocketError::Directory {
            path: directory.to_owned(),
            source,
        })?;
        let ports = match transport {
            MigrationTransport::Unix => &[][..],
            MigrationTransport::Loopback { with_disks: false } => &[DIRECT_PORT],
            MigrationTransport::Loopback { with_disks: true } => &[DIRECT_PORT, BLOCK_PORT],
        };
        let path = |port: &u16| directory.join(format!("{uid}-{port}-source.sock"));
        self.files
            .extend([DIRECT_PORT, BLOCK_PORT].iter().map(path));
        let needed: Vec<(PathBuf, u16)> = ports.iter().map(|port| (path(port), *port)).collect();
        // Listeners that are still needed are kept, even if a new one fails below.
        self.listeners.retain(|(path, _)| {
            existing.contains(path) && needed.iter().any(|(socket, _)| socket == path)
        });
        for (path, port) in needed {
            if !self.listeners.iter().any(|(socket, _)| *socket == path) {
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
        lchown(path, Some(QEMU_USER), Some(QEMU_USER))?;
    }
    Ok(())
}

async fn bind(path: PathBuf) -> Result<net::UnixListener, MigrationTargetSocketError> {
    let socket = path.clone();
    let bind = move || unix_listener::bind(&socket);
    blocking::file_call("making a migration's socket", FILE_OPERATION_TIMEOUT, bind)
        .await?
        .map_err(|source| MigrationTargetSocketError::Listen { path, source })
}

/// Copies the data of a socket's connections from and to QEMU.
fn listen(
    path: PathBuf,
    port: u16,
    socket: net::UnixListener,
) -> Result<(PathBuf, ByteListener), MigrationTargetSocketError> {
    let serve = move |connection, handle| pipe_to_qemu(connection, handle, port);
    match UnixListener::from_std(socket) {
        Ok(socket) => Ok((
            path,
            ByteListener::serve(socket, limits::MIGRATION_DATA, serve),
        )),
        Err(source) => Err(MigrationTargetSocketError::Listen { path, source }),
    }
}

async fn pipe_to_qemu(connection: UnixStream, handle: ConnectionHandle, port: u16) {
    if let Err(error) = copy_to_and_from_qemu(connection, &handle, port).await {
        tracing::warn!(reason = %error, port, "piping a migration's connection to QEMU");
    }
}

/// From the first bytes of the source on, the connection is not idle, whatever QEMU sends when.
async fn copy_to_and_from_qemu(
    mut connection: UnixStream,
    handle: &ConnectionHandle,
    port: u16,
) -> io::Result<()> {
    let mut qemu = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (from_source, mut to_source) = connection.split();
    let mut from_source = BufReader::new(from_source);
    let (mut from_qemu, mut to_qemu) = qemu.split();
    let mut running = None;
    let to_qemu = async {
        from_source.fill_buf().await?;
        running = Some(handle.running());
        tokio::io::copy_buf(&mut from_source, &mut to_qemu).await?;
        to_qemu.shutdown().await
    };
    let to_source = async {
        tokio::io::copy(&mut from_qemu, &mut to_source).await?;
        to_source.shutdown().await
    };
    tokio::try_join!(to_qemu, to_source)?;
    drop(running);
    Ok(())
}
