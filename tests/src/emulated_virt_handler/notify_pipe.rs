//! The socket that virt-handler creates in the pod for notifications, and its connections.
//!
//! ```text
//! launcher ─▶ domain-notify-pipe.sock (opened and closed with the command client) ─▶ notification server
//! ```
//!
//! Closing the listener does not close the connections, which end with virt-handler's process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::DuplexStream;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, JoinSet};

use super::make_world_accessible;

/// The buffer size of a connection in bytes.
const BUFFER_SIZE: usize = 64 * 1024;

/// The queue of new connections for the server.
pub(super) type Incoming = UnboundedSender<io::Result<DuplexStream>>;

/// The pipe of one pod.
#[derive(Debug)]
pub(super) struct NotifyPipe {
    path: PathBuf,
    incoming: Incoming,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The task that accepts connections, if the listener is open.
    listener: Option<JoinHandle<()>>,
    connections: std::sync::Arc<Mutex<JoinSet<()>>>,
}

impl NotifyPipe {
    pub(super) fn new(share_dir: &Path, incoming: Incoming) -> NotifyPipe {
        NotifyPipe {
            path: share_dir.join("domain-notify-pipe.sock"),
            incoming,
            state: Mutex::default(),
        }
    }

    /// Binds the socket, unless it is bound.
    pub(super) fn open(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.listener.is_some() {
            return Ok(());
        }
        let _ = std::fs::remove_file(&self.path);
        let path = || self.path.display().to_string();
        let listener = UnixListener::bind(&self.path).with_context(path)?;
        make_world_accessible(&self.path)?;
        let (incoming, connections) = (self.incoming.clone(), state.connections.clone());
        state.listener = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (pipe_end, server_end) = tokio::io::duplex(BUFFER_SIZE);
                let _ = incoming.send(Ok(server_end));
                let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
                while connections.try_join_next().is_some() {}
                connections.spawn(forward(stream, pipe_end));
            }
        }));
        Ok(())
    }

    /// Closes the listener. Connections stay open, and the socket file stays, as on a node.
    pub(super) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = state.listener.take() {
            listener.abort();
        }
    }

    /// Closes the listener and all connections.
    pub(super) fn close_all(&self) {
        self.close();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connections = state
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connections.abort_all();
    }
}

async fn forward(mut stream: UnixStream, mut server: DuplexStream) {
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}
