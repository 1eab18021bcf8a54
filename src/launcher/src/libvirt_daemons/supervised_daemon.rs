//! A daemon that is restarted whenever it ends.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::daemon_command::{DaemonCommand, TERM_TIMEOUT};
use super::error::DaemonError;
use super::restart_task::{DaemonState, DaemonTask, lock};

/// A daemon that is restarted when it ends.
#[derive(Debug)]
pub(super) struct SupervisedDaemon {
    program: PathBuf,
    state: Arc<Mutex<DaemonState>>,
    ends: watch::Receiver<u64>,
    restarts: watch::Receiver<u64>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl SupervisedDaemon {
    /// Starts the daemon, and the task that restarts it.
    pub(super) fn spawn(command: DaemonCommand) -> Result<Self, DaemonError> {
        let state = Arc::default();
        let child = command.spawn()?;
        let (end_count, ends) = watch::channel(0);
        let (restart_count, restarts) = watch::channel(0);
        let (stop, stopped) = oneshot::channel();
        let program = command.program.clone();
        let task = DaemonTask {
            backoff: command.backoff,
            command,
            state: Arc::clone(&state),
            ends: end_count,
            restarts: restart_count,
            is_down: false,
        };
        task.record_start(&child);
        Ok(SupervisedDaemon {
            program,
            state,
            ends,
            restarts,
            stop,
            task: tokio::spawn(task.run(child, stopped)),
        })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    #[cfg(test)]
    pub(super) fn pid(&self) -> Option<u32> {
        lock(&self.state).pid
    }

    /// A receiver that counts how often the daemon has ended unexpectedly.
    pub(super) fn ends(&self) -> watch::Receiver<u64> {
        self.ends.clone()
    }

    #[cfg(test)]
    pub(super) fn restarts(&self) -> watch::Receiver<u64> {
        self.restarts.clone()
    }

    /// The last exit status, if the daemon does not run and has ended more than once.
    pub(super) fn ended_twice(&self) -> Option<ExitStatus> {
        let state = lock(&self.state);
        state
            .last_exit
            .filter(|_| state.pid.is_none() && *self.restarts.borrow() > 0)
    }

    /// The end of the daemon's log.
    pub(super) fn last_log_lines(&self) -> String {
        let state = lock(&self.state);
        if state.last_log_lines.is_empty() {
            return "nothing".to_owned();
        }
        state
            .last_log_lines
            .iter()
            .cloned()
            .collect::<Vec<_>>()
            .join(" | ")
    }

    /// Ends the daemon and its task, within twice [`TERM_TIMEOUT`].
    pub(super) async fn shutdown(self) {
        let _ = self.stop.send(());
        let mut task = self.task;
        if timeout(TERM_TIMEOUT * 2, &mut task).await.is_err() {
            task.abort();
        }
    }
}
