//! One daemon and the task that restarts it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStderr};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::ambient_capability;
use super::error::DaemonError;
use super::log_lines;
use super::orphaned_capability_probes;
use super::restart_backoff::Backoff;
use super::socket_activation::SocketActivation;
use crate::blocking;
use crate::first_migration_error_in_libvirt_log::MigrationErrorLog;

/// How long a daemon may take to end when asked. A healthy one takes a tenth of it; one that is
/// stopped (SIGSTOP) never ends by SIGTERM, and the launcher's end does not wait for it.
const TERM_TIMEOUT: Duration = Duration::from_millis(700);
/// A daemon that was restarted and still runs after this long is back.
const RECOVERY_TIME: Duration = Duration::from_secs(1);
/// How long reading the command lines of all processes may take.
const PROCESS_SEARCH: Duration = Duration::from_secs(1);
/// How much of its log is kept for an error.
const LAST_LOG_LINES: usize = 5;

/// How a daemon is started.
#[derive(Debug, Clone)]
pub(super) struct DaemonCommand {
    pub(super) program: PathBuf,
    pub(super) configuration: PathBuf,
    pub(super) environment: Vec<(&'static str, PathBuf)>,
    /// Pass CAP_NET_BIND_SERVICE on.
    pub(super) bind_service: bool,
    /// The socket that the launcher listens on for it.
    pub(super) socket_activation: Option<SocketActivation>,
    /// The pauses between its end and its next start.
    pub(super) backoff: Backoff,
    /// libvirt's directory for QEMU, of the daemon that starts QEMU to learn its capabilities.
    pub(super) capability_probes: Option<PathBuf>,
    /// Takes in its errors.
    pub(super) migration_log: MigrationErrorLog,
}

/// What the task tells about the daemon.
#[derive(Debug, Default)]
struct DaemonState {
    pid: Option<u32>,
    ended: Option<ExitStatus>,
    last_log_lines: VecDeque<String>,
}

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
    /// Starts the daemon, once, and its task.
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
            lost: false,
        };
        task.note_start(&child);
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

    /// How often it ended without being asked; changes at once when it does.
    pub(super) fn ends(&self) -> watch::Receiver<u64> {
        self.ends.clone()
    }

    #[cfg(test)]
    pub(super) fn restarts(&self) -> watch::Receiver<u64> {
        self.restarts.clone()
    }

    /// How it last ended, when it has ended more than once.
    pub(super) fn ended_twice(&self) -> Option<ExitStatus> {
        let state = lock(&self.state);
        state
            .ended
            .filter(|_| state.pid.is_none() && *self.restarts.borrow() > 0)
    }

    /// The end of its log.
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

    /// Ends the daemon and its task, within [`GRACE`] and what a SIGKILL takes.
    pub(super) async fn shutdown(self) {
        let _ = self.stop.send(());
        let mut task = self.task;
        if timeout(TERM_TIMEOUT * 2, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// The only code that spawns and reaps the daemon.
struct DaemonTask {
    command: DaemonCommand,
    backoff: Backoff,
    state: Arc<Mutex<DaemonState>>,
    ends: watch::Sender<u64>,
    restarts: watch::Sender<u64>,
    /// Its end has been logged, and not yet that it is back.
    lost: bool,
}

impl DaemonTask {
    async fn run(mut self, first: Child, stop: oneshot::Receiver<()>) {
        self.keep_running(first, stop).await;
        self.kill_capability_probes().await;
    }

    /// Returns when the end is wanted and has come.
    async fn keep_running(&mut self, first: Child, mut stop: oneshot::Receiver<()>) {
        let mut child = Some(first);
        loop {
            let ran = match child.take() {
                Some(running) => {
                    let began = Instant::now();
                    let Some(()) = self.watch(running, &mut stop).await else {
                        return;
                    };
                    Some(began.elapsed())
                }
                None => None,
            };
            let pause = self.backoff.next(ran);
            tokio::select! {
                _ = &mut stop => return,
                () = sleep(pause) => {}
            }
            self.kill_capability_probes().await;
            child = self.restart();
        }
    }

    /// Waits for the end. `None` when the end was wanted.
    async fn watch(&mut self, mut child: Child, stop: &mut oneshot::Receiver<()>) -> Option<()> {
        let reader = child.stderr.take().map(|stderr| self.read_log(stderr));
        let recovered = sleep(RECOVERY_TIME);
        tokio::pin!(recovered);
        let status = loop {
            tokio::select! {
                _ = &mut *stop => {
                    end(&mut child, self.program()).await;
                    return None;
                }
                status = child.wait() => break status,
                () = &mut recovered, if self.lost => {
                    self.lost = false;
                    tracing::info!(program = %self.program().display(), pid = child.id(), "a libvirt daemon runs again");
                }
            }
        };
        self.note_end(status);
        if let Some(reader) = reader {
            // Its children (QEMU) may hold the pipe open: what is there by now is read, no more.
            let _ = timeout(Duration::from_millis(100), reader).await;
        }
        Some(())
    }

    async fn kill_capability_probes(&self) {
        let Some(directory) = self.command.capability_probes.clone() else {
            return;
        };
        let kill = move || orphaned_capability_probes::kill(&directory);
        let killed = blocking::call("killing capability probes", PROCESS_SEARCH, kill);
        if let Err(error) = killed.await {
            tracing::warn!(reason = %error, "probes of QEMU's capabilities may still run");
        }
    }

    /// One warning for each loss, however many attempts it takes until the daemon is back.
    fn note_end(&mut self, status: std::io::Result<ExitStatus>) {
        let mut state = lock(&self.state);
        state.pid = None;
        let how = match status {
            Ok(status) => {
                state.ended = Some(status);
                status.to_string()
            }
            Err(error) => format!("it cannot be waited for: {error}"),
        };
        drop(state);
        let program = self.program().display();
        if self.lost {
            tracing::debug!(%program, how, "a libvirt daemon ended again");
        } else {
            tracing::warn!(%program, how, "a libvirt daemon ended and is restarted");
        }
        self.lost = true;
        self.ends.send_modify(|count| *count += 1);
    }

    fn restart(&self) -> Option<Child> {
        self.restarts.send_modify(|count| *count += 1);
        match self.command.spawn() {
            Ok(child) => {
                self.note_start(&child);
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

    fn note_start(&self, child: &Child) {
        lock(&self.state).pid = child.id();
        tracing::debug!(program = %self.program().display(), pid = child.id(), "a libvirt daemon was started");
    }

    fn read_log(&self, stderr: ChildStderr) -> JoinHandle<()> {
        let state = Arc::clone(&self.state);
        let migration = self.command.migration_log.clone();
        tokio::spawn(log_lines::each(stderr, move |line| {
            log_lines::log_libvirt(line, &migration);
            let mut state = lock(&state);
            if state.last_log_lines.len() == LAST_LOG_LINES {
                state.last_log_lines.pop_front();
            }
            state.last_log_lines.push_back(line.to_owned());
        }))
    }
}

impl DaemonCommand {
    fn spawn(&self) -> Result<Child, DaemonError> {
        let failed = |source| DaemonError::Spawn {
            program: self.program.clone(),
            source,
        };
        let mut command = match &self.socket_activation {
            Some(socket_activation) => socket_activation.command(&self.program).map_err(failed)?,
            None => {
                let mut command = tokio::process::Command::new(&self.program);
                command.stdin(Stdio::null());
                command
            }
        };
        command
            .arg("-f")
            .arg(&self.configuration)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let spawned = if self.bind_service {
            ambient_capability::with_bind_service(|| command.spawn())
        } else {
            command.spawn()
        };
        spawned.map_err(failed)
    }
}

/// Asks the daemon to end, then makes it.
async fn end(child: &mut Child, program: &Path) {
    let pid = child
        .id()
        .and_then(|pid| rustix::process::Pid::from_raw(pid.try_into().ok()?));
    if let Some(pid) = pid {
        // It has not been reaped, so the number is still its own.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if timeout(TERM_TIMEOUT, child.wait()).await.is_err() {
        tracing::warn!(program = %program.display(), "a libvirt daemon ignores SIGTERM and is killed");
        let _ = child.kill().await;
    }
}

fn lock(state: &Mutex<DaemonState>) -> std::sync::MutexGuard<'_, DaemonState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
