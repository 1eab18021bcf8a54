//! A daemon that is restarted whenever it ends.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::daemon_process::{Backoff, DaemonCommand, TERM_TIMEOUT, terminate};
use super::{DaemonError, log_lines};
use crate::{blocking, kill_by_command_line};

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
        let kill = move || kill_orphaned_capability_probes(&directory);
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

// Kills the QEMU processes that an ended libvirt daemon has started to probe QEMU's capabilities.
//
// These processes are daemonised and end only at the daemon's request. If their daemon was killed meanwhile, they
// would run until the pod ends. Each has its pid file at `DIRECTORY/qmp-XXXXXX/qmp.pid`, in libvirt's directory for
// QEMU.

/// Kills all probes with a pid file below `directory`, whose daemon has ended. Blocking.
pub(super) fn kill_orphaned_capability_probes(directory: &Path) {
    let count =
        kill_by_command_line::kill_matching(|command_line| is_probe(command_line, directory));
    if count > 0 {
        tracing::info!(
            count,
            "QEMUs that an ended libvirt daemon had started to learn their capabilities were killed"
        );
    }
}

fn is_probe(command_line: &[u8], directory: &Path) -> bool {
    let mut arguments = command_line
        .split(|byte| *byte == 0)
        .filter_map(|argument| str::from_utf8(argument).ok());
    let pid_file = arguments
        .find(|argument| *argument == "-pidfile")
        .and_then(|_| arguments.next());
    let below = pid_file.and_then(|file| Path::new(file).strip_prefix(directory).ok());
    below.and_then(Path::to_str).is_some_and(|below| {
        below.starts_with("qmp-") && below.ends_with("/qmp.pid") && below.matches('/').count() == 1
    })
}

// A daemon takes about 60 ms. Frequent checks cost little, and the launcher's start waits for this.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns when connections to `socket` are accepted. The file alone is not enough: a dead daemon may have left it.
pub(super) async fn wait_for_socket(
    daemon: &SupervisedDaemon,
    socket: &Path,
    within: Duration,
) -> Result<(), DaemonError> {
    let start = Instant::now();
    let mut pause = MIN_POLL_INTERVAL;
    loop {
        if UnixStream::connect(socket).await.is_ok() {
            return Ok(());
        }
        if let Some(status) = daemon.ended_twice() {
            return Err(DaemonError::Ended {
                program: daemon.program().to_owned(),
                status,
                socket: socket.to_owned(),
                last_log_lines: daemon.last_log_lines(),
            });
        }
        let waited = start.elapsed();
        if waited >= within {
            return Err(DaemonError::NotReady {
                program: daemon.program().to_owned(),
                socket: socket.to_owned(),
                waited,
                last_log_lines: daemon.last_log_lines(),
            });
        }
        sleep(pause).await;
        pause = (pause * 3 / 2).min(MAX_POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_probes_of_the_directory_match() {
        let directory = Path::new("/var/lib/libvirt/qemu");
        let matches = |pid_file: &str| {
            let line =
                format!("/usr/bin/qemu-system-x86_64\0-S\0-pidfile\0{pid_file}\0-daemonize\0");
            is_probe(line.as_bytes(), directory)
        };
        assert!(matches("/var/lib/libvirt/qemu/qmp-a1B2c3/qmp.pid"));
        assert!(!matches("/var/lib/libvirt/other/qmp-a1B2c3/qmp.pid"));
        assert!(!matches("/var/lib/libvirt/qemu/default_vm/qmp.pid"));
        assert!(!matches("/var/lib/libvirt/qemu/qmp-a1B2c3/x/qmp.pid"));
        assert!(!is_probe(b"qemu-system-x86_64\0-pidfile", directory));
        assert!(!is_probe(b"", directory));
    }
}
