//! Errors of the NBD client.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Reading the backup from QEMU's NBD server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NbdError {
    /// Connecting to the socket failed.
    #[error("connecting to the backup at {path}: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of the socket.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the backup broke: {0}")]
    Io(#[from] io::Error),
    /// QEMU gave no answer in time.
    #[error("QEMU gave no answer about the backup within {0:?}")]
    Timeout(Duration),
    /// The gRPC client has stopped reading.
    #[error("the client of the backup has read nothing for {0:?}")]
    ClientStopped(Duration),
    /// QEMU's answer violates the NBD protocol.
    #[error("QEMU's answer about the backup is not understood: {0}")]
    Protocol(String),
    /// QEMU refuses an option of the handshake, for example since there is no such export.
    #[error("QEMU refuses export {export:?}: {reason}")]
    Refused {
        /// The export's name.
        export: String,
        /// QEMU's reason.
        reason: String,
    },
    /// QEMU answered a request with an error.
    #[error("QEMU cannot serve the backup (error {number}): {reason}")]
    Failed {
        /// The protocol's error number.
        number: u32,
        /// QEMU's reason.
        reason: String,
    },
    /// The export has no such context, for example since the bitmap does not exist.
    #[error("server does not support requested context: {0}")]
    NoContext(String),
    /// The request begins behind the end of the export.
    #[error("offset {offset} is beyond export size {size}")]
    BeyondEnd {
        /// The requested offset.
        offset: u64,
        /// The export's size.
        size: u64,
    },
}

impl NbdError {
    pub(super) fn protocol(what: impl Into<String>) -> NbdError {
        NbdError::Protocol(what.into())
    }
}
