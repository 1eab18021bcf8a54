//! The socket that virt-handler puts into the pod for notifications, and its connections.
//!
//! ```text
//! launcher ─▶ domain-notify-pipe.sock (opened and closed with the command client) ─▶ notification server
//! ```
//!
//! Closing the socket does not close open connections; they end with virt-handler's process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::DuplexStream;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, JoinSet};

use super::open_to_all;

/// Buffer size of a connection.
const BUFFER: usize = 64 * 1024;

/// The server's queue of connections.
pub(super) type Incoming = UnboundedSender<io::Result<DuplexStream>>;

/// The pipe of one pod.
#[derive(Debug)]
pub(super) struct NotifyPipe {
    path: PathBuf,
    incoming: Incoming,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Accepts, as long as the socket is open.
    listener: Option<JoinHandle<()>>,
    connections: std::sync::Arc<Mutex<JoinSet<()>>>,
}

impl NotifyPipe {
    pub(super) fn new(share_dir: &Path, incoming: Incoming) -> NotifyPipe {
        NotifyPipe {
            path: share_dir.join("domain-notify-pipe.sock"),
            incoming,
            open: Mutex::default(),
        }
    }

    /// Binds the socket, unless it is bound.
    pub(super) fn open(&self) -> Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.listener.is_some() {
            return Ok(());
        }
        let _ = std::fs::remove_file(&self.path);
        let at = || self.path.display().to_string();
        let listener = UnixListener::bind(&self.path).with_context(at)?;
        open_to_all(&self.path)?;
        let (incoming, connections) = (self.incoming.clone(), open.connections.clone());
        open.listener = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (near, far) = tokio::io::duplex(BUFFER);
                let _ = incoming.send(Ok(far));
                let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
                while connections.try_join_next().is_some() {}
                connections.spawn(forward(stream, near));
            }
        }));
        Ok(())
    }

    /// Stops accepting. The socket file stays, as it does on a node.
    pub(super) fn close(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = open.listener.take() {
            listener.abort();
        }
    }

    /// Closes, and ends all connections.
    pub(super) fn cut(&self) {
        self.close();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connections = open
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connections.abort_all();
    }
}

async fn forward(mut stream: UnixStream, mut server: DuplexStream) {
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}
