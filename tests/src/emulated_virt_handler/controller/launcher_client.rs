//! virt-handler's client of the launcher, which is kept until the VM is cleaned up. The notify pipe is opened and
//! closed together with it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::calls_with_deadline::{CallError, call_with_deadline};
use super::decision_rules::LauncherState;
use crate::emulated_virt_handler::command_client::{Commands, QUERY_TIMEOUT};
use crate::emulated_virt_handler::notify_pipe::NotifyPipe;
use crate::grpc_over_unix_socket::dial;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a launcher may take to create its socket.
const INITIALIZATION_TIMEOUT: Duration = Duration::from_secs(180);
/// The name of the file with which virt-handler marks a socket without a listener.
const UNRESPONSIVE_MARKER: &str = "launcher-unresponsive";

/// The client, and the state of the socket.
#[derive(Debug)]
pub(super) struct LauncherClient {
    socket: PathBuf,
    pipe: Arc<NotifyPipe>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    client: Option<Commands>,
    /// When the socket was first found missing.
    missing_since: Option<Instant>,
    /// Whether the socket has ever existed.
    socket_seen: bool,
    /// Whether virt-handler has a ghost record: a file, kept across its restarts, about a launcher to which it was
    /// connected.
    ghost_record: bool,
}

impl LauncherClient {
    pub(super) fn new(share_dir: &Path, pipe: Arc<NotifyPipe>) -> LauncherClient {
        LauncherClient {
            socket: share_dir.join("sockets/launcher-sock"),
            pipe,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client, connected first if needed.
    pub(super) async fn get(&self) -> Result<Commands, CallError> {
        if let Some(client) = self.lock().client.clone() {
            return Ok(client);
        }
        if !self.socket.exists() {
            return Err(CallError::NotConnected("there is no command socket".into()));
        }
        let client = self.connect().await?;
        let failed = |error: anyhow::Error| CallError::NotConnected(format!("{error:#}"));
        self.pipe.open().map_err(failed)?;
        let mut state = self.lock();
        state.client = Some(client.clone());
        state.ghost_record = true;
        state.socket_seen = true;
        Ok(client)
    }

    /// Connects a new client, without opening the notify pipe.
    pub(super) async fn connect(&self) -> Result<Commands, CallError> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, dial(&self.socket)).await;
        let channel = match connected {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(CallError::NotConnected(format!("{error:#}"))),
            Err(_) => return Err(CallError::Deadline(CONNECT_TIMEOUT)),
        };
        let client = Commands::on_channel(channel);
        match tokio::time::timeout(QUERY_TIMEOUT, client.info()).await {
            Ok(Ok(versions)) if versions.contains(&1) => Ok(client),
            Ok(Ok(versions)) => Err(CallError::NotConnected(format!("versions {versions:?}"))),
            Ok(Err(error)) => Err(CallError::NotConnected(format!("{error:#}"))),
            Err(_) => Err(CallError::Deadline(QUERY_TIMEOUT)),
        }
    }

    /// The client, connected first if needed, after a successful Ping.
    pub(super) async fn connect_and_ping(&self) -> Result<Commands, CallError> {
        let client = self.get().await?;
        call_with_deadline(QUERY_TIMEOUT, client.ping()).await?;
        Ok(client)
    }

    /// Closes the client and the notify pipe, and removes the ghost record.
    pub(super) fn close(&self) {
        *self.lock() = State::default();
        self.pipe.close();
    }

    /// Resets the state as the end of virt-handler's process does: only the ghost record remains.
    pub(super) fn reset_after_process_exit(&self) {
        let mut state = self.lock();
        *state = State {
            ghost_record: state.ghost_record,
            ..State::default()
        };
        drop(state);
        self.pipe.close_all();
    }

    pub(super) fn has_ghost_record(&self) -> bool {
        self.lock().ghost_record
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn mark_unresponsive(&self) {
        let _ = std::fs::write(self.socket.with_file_name(UNRESPONSIVE_MARKER), "");
    }

    /// The launcher's state, inferred from the socket's file.
    pub(super) fn launcher_state(&self) -> LauncherState {
        let socket_exists = self.socket.exists();
        let marked = self.socket.with_file_name(UNRESPONSIVE_MARKER).exists();
        let mut state = self.lock();
        state.socket_seen |= socket_exists;
        if state.socket_seen {
            return if socket_exists && !marked {
                LauncherState::Responsive
            } else {
                LauncherState::Unresponsive
            };
        }
        let since = *state.missing_since.get_or_insert_with(Instant::now);
        if since.elapsed() > INITIALIZATION_TIMEOUT {
            LauncherState::Unresponsive
        } else {
            LauncherState::NotInitialized
        }
    }
}
