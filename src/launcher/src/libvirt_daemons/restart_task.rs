//! The task that watches a daemon and restarts it.

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStderr};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::daemon_command::{DaemonCommand, terminate};
use super::log_lines;
use super::orphaned_capability_probes;
use super::restart_backoff::Backoff;
use crate::blocking;

/// A restarted daemon that has run for this long counts as recovered.
const RECOVERY_TIME: Duration = Duration::from_secs(1);
/// How long reading the command lines of all processes may take.
const PROCESS_SEARCH_TIMEOUT: Duration = Duration::from_secs(1);
/// How many lines of the daemon's log are kept for errors.
const KEPT_LOG_LINES: usize = 5;

/// The daemon's state, which its task updates.
#[derive(Debug, Default)]
pub(super) struct DaemonState {
    pub(super) pid: Option<u32>,
    pub(super) last_exit: Option<ExitStatus>,
    pub(super) last_log_lines: VecDeque<String>,
}

/// The task that restarts the daemon.
pub(super) struct DaemonTask {
    pub(super) command: DaemonCommand,
    pub(super) backoff: Backoff,
    pub(super) state: Arc<Mutex<DaemonState>>,
    pub(super) ends: watch::Sender<u64>,
    pub(super) restarts: watch::Sender<u64>,
    /// Whether the daemon's end was logged, and its recovery not yet.
    pub(super) is_down: bool,
}

impl DaemonTask {
    /// Runs until a stop is requested; `first` is the running daemon.
    pub(super) async fn run(mut self, first: Child, stop: oneshot::Receiver<()>) {
        self.keep_running(first, stop).await;
        self.kill_capability_probes().await;
    }

    /// Restarts the daemon until a stop is requested and the daemon has ended.
    async fn keep_running(&mut self, first: Child, mut stop: oneshot::Receiver<()>) {
        let mut child = Some(first);
        loop {
            let run_time = match child.take() {
                Some(running) => {
                    let begin = Instant::now();
                    let Some(()) = self.watch(running, &mut stop).await else {
                        return;
                    };
                    Some(begin.elapsed())
                }
                None => None,
            };
            let pause = self.backoff.next(run_time);
            tokio::select! {
                _ = &mut stop => return,
                () = sleep(pause) => {}
            }
            self.kill_capability_probes().await;
            child = self.restart();
        }
    }

    /// Waits until the daemon has ended. `None` when this was requested.
    async fn watch(&mut self, mut child: Child, stop: &mut oneshot::Receiver<()>) -> Option<()> {
        let reader = child.stderr.take().map(|stderr| self.read_log(stderr));
        let recovery = sleep(RECOVERY_TIME);
        tokio::pin!(recovery);
        let status = loop {
            tokio::select! {
                _ = &mut *stop => {
                    terminate(&mut child, self.program()).await;
                    return None;
                }
                status = child.wait() => break status,
                () = &mut recovery, if self.is_down => {
                    self.is_down = false;
                    tracing::info!(program = %self.program().display(), pid = child.id(), "a libvirt daemon runs again");
                }
            }
        };
        self.record_end(status);
        if let Some(reader) = reader {
            // Not until the end of the pipe: the daemon's children (QEMU) may keep it open.
            let _ = timeout(Duration::from_millis(100), reader).await;
        }
        Some(())
    }

    async fn kill_capability_probes(&self) {
        let Some(directory) = self.command.capability_probes.clone() else {
            return;
        };
        let kill = move || orphaned_capability_probes::kill(&directory);
        let killed = blocking::call("killing capability probes", PROCESS_SEARCH_TIMEOUT, kill);
        if let Err(error) = killed.await {
            tracing::warn!(reason = %error, "probes of QEMU's capabilities may still run");
        }
    }

    /// Records an end. It is logged as a warning once until the daemon has recovered, however many restarts fail.
    fn record_end(&mut self, status: std::io::Result<ExitStatus>) {
        let mut state = lock(&self.state);
        state.pid = None;
        let how = match status {
            Ok(status) => {
                state.last_exit = Some(status);
                status.to_string()
            }
            Err(error) => format!("it cannot be waited for: {error}"),
        };
        drop(state);
        let program = self.program().display();
        if self.is_down {
            tracing::debug!(%program, how, "a libvirt daemon ended again");
        } else {
            tracing::warn!(%program, how, "a libvirt daemon ended and is restarted");
        }
        self.is_down = true;
        self.ends.send_modify(|count| *count += 1);
    }

    fn restart(&self) -> Option<Child> {
        self.restarts.send_modify(|count| *count += 1);
        match self.command.spawn() {
            Ok(child) => {
                self.record_start(&child);
                Some(child)
            }
            Err(error) => {
                tracing::error!(%error, "a libvirt daemon cannot be restarted");
                None
            }
        }
    }

    fn program(&self) -> &Path {
        &self.command.program
    }

    /// Records that the daemon was started.
    pub(super) fn record_start(&self, child: &Child) {
        lock(&self.state).pid = child.id();
        tracing::debug!(program = %self.program().display(), pid = child.id(), "a libvirt daemon was started");
    }

    fn read_log(&self, stderr: ChildStderr) -> JoinHandle<()> {
        let state = Arc::clone(&self.state);
        let migration = self.command.migration_log.clone();
        tokio::spawn(log_lines::for_each(stderr, move |line| {
            log_lines::log_libvirt(line, &migration);
            let mut state = lock(&state);
            if state.last_log_lines.len() == KEPT_LOG_LINES {
                state.last_log_lines.pop_front();
            }
            state.last_log_lines.push_back(line.to_owned());
        }))
    }
}

pub(super) fn lock(state: &Mutex<DaemonState>) -> std::sync::MutexGuard<'_, DaemonState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
