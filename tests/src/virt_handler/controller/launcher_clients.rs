//! virt-handler's connection to the launcher: one client, kept until the VM is cleaned up, and the notify pipe that
//! opens and closes with it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tonic::{Code, Status};

use super::decision_rules::LauncherState;
use crate::grpc_channel::dial;
use crate::virt_handler::command_client::{Answer, COMMAND, Commands, QUERY};
use crate::virt_handler::notify_pipe::NotifyPipe;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a launcher may take to make its socket.
const INITIALIZE: Duration = Duration::from_secs(180);
/// The file with which virt-handler marks a socket that has no listener.
const UNRESPONSIVE: &str = "launcher-unresponsive";

/// Why a call had no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// No client: no socket, or nobody behind it.
    NotConnected(String),
    /// The launcher refused.
    Refused(String),
    /// No answer in time.
    Deadline(Duration),
    /// The connection closed, for example because the launcher exited.
    Disconnected,
    /// A gRPC error.
    Failed(String),
}

impl std::fmt::Display for CallError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::NotConnected(why) => write!(formatter, "not connected: {why}"),
            CallError::Refused(message) => write!(formatter, "refused: {message}"),
            CallError::Deadline(limit) => write!(formatter, "no answer within {limit:?}"),
            CallError::Disconnected => write!(formatter, "disconnected"),
            CallError::Failed(status) => write!(formatter, "{status}"),
        }
    }
}

/// The client, and the state of the socket.
#[derive(Debug)]
pub(super) struct LauncherClients {
    socket: PathBuf,
    pipe: Arc<NotifyPipe>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    client: Option<Commands>,
    /// Since when the socket has been missing, or that it has existed.
    looked_for: Option<Instant>,
    was_there: bool,
    /// virt-handler's ghost record: a file about a launcher that it has connected to, kept across restarts.
    ghost_record: bool,
}

impl LauncherClients {
    pub(super) fn new(share_dir: &Path, pipe: Arc<NotifyPipe>) -> LauncherClients {
        LauncherClients {
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
        state.was_there = true;
        Ok(client)
    }

    /// A client for one call, without the notify pipe.
    pub(super) async fn connect(&self) -> Result<Commands, CallError> {
        let dialled = tokio::time::timeout(CONNECT, dial(&self.socket)).await;
        let channel = match dialled {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(CallError::NotConnected(format!("{error:#}"))),
            Err(_) => return Err(CallError::Deadline(CONNECT)),
        };
        let client = Commands::over(channel);
        match tokio::time::timeout(QUERY, client.info()).await {
            Ok(Ok(versions)) if versions.contains(&1) => Ok(client),
            Ok(Ok(versions)) => Err(CallError::NotConnected(format!("versions {versions:?}"))),
            Ok(Err(error)) => Err(CallError::NotConnected(format!("{error:#}"))),
            Err(_) => Err(CallError::Deadline(QUERY)),
        }
    }

    /// The client, if the launcher answers a Ping.
    pub(super) async fn verified(&self) -> Result<Commands, CallError> {
        let client = self.get().await?;
        call_with_deadline(QUERY, client.ping()).await?;
        Ok(client)
    }

    /// Closes the client and the notify pipe, and removes the ghost record.
    pub(super) fn close(&self) {
        *self.lock() = State::default();
        self.pipe.close();
    }

    /// What remains after the end of virt-handler's process: only the ghost record.
    pub(super) fn process_ended(&self) {
        let mut state = self.lock();
        *state = State {
            ghost_record: state.ghost_record,
            ..State::default()
        };
        drop(state);
        self.pipe.cut();
    }

    pub(super) fn has_ghost_record(&self) -> bool {
        self.lock().ghost_record
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn mark_unresponsive(&self) {
        let _ = std::fs::write(self.socket.with_file_name(UNRESPONSIVE), "");
    }

    /// The launcher's state, from the socket's file.
    pub(super) fn launcher_state(&self) -> LauncherState {
        let there = self.socket.exists();
        let marked = self.socket.with_file_name(UNRESPONSIVE).exists();
        let mut state = self.lock();
        state.was_there |= there;
        if state.was_there {
            return if there && !marked {
                LauncherState::Responsive
            } else {
                LauncherState::Unresponsive
            };
        }
        let since = *state.looked_for.get_or_insert_with(Instant::now);
        if since.elapsed() > INITIALIZE {
            LauncherState::Unresponsive
        } else {
            LauncherState::NotInitialized
        }
    }
}

/// A call with its deadline.
pub(super) async fn call_with_deadline(
    limit: Duration,
    call: impl Future<Output = Result<Answer, Status>>,
) -> Result<(), CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) if answer.success => Ok(()),
        Ok(Ok(answer)) => Err(CallError::Refused(answer.message)),
        Ok(Err(status)) => Err(classify(&status, limit)),
        Err(_) => Err(CallError::Deadline(limit)),
    }
}

/// A command with virt-handler's 20 seconds.
pub(super) async fn command_with_deadline(
    call: impl Future<Output = Result<Answer, Status>>,
) -> Result<(), CallError> {
    call_with_deadline(COMMAND, call).await
}

fn classify(status: &Status, limit: Duration) -> CallError {
    match status.code() {
        // tonic reports a deadline as Cancelled, Go as DeadlineExceeded.
        Code::Cancelled if status.message().contains("Timeout expired") => {
            CallError::Deadline(limit)
        }
        Code::Cancelled => CallError::Disconnected,
        _ => CallError::Failed(status.to_string()),
    }
}
