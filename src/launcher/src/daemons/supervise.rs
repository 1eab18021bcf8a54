//! One daemon and the task that keeps it alive.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStderr};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::capability;
use super::error::DaemonError;
use super::log_lines;

/// A daemon that crashes at once must not take a processor for itself (KubeVirt's pause).
const PAUSE_BEFORE_RESTART: Duration = Duration::from_secs(1);
/// How long a daemon may take to end when asked.
const GRACE: Duration = Duration::from_secs(5);
/// How much of its log is kept for an error.
const LAST_WORDS: usize = 5;

/// How a daemon is started.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) program: PathBuf,
    pub(super) configuration: PathBuf,
    pub(super) environment: Vec<(&'static str, PathBuf)>,
    /// Pass CAP_NET_BIND_SERVICE on.
    pub(super) bind_service: bool,
}

/// What the task tells about the daemon.
#[derive(Debug, Default)]
struct Facts {
    pid: Option<u32>,
    ended: Option<ExitStatus>,
    last_words: VecDeque<String>,
}

/// A daemon that is restarted 1 s after it ends.
#[derive(Debug)]
pub(super) struct Supervised {
    program: PathBuf,
    facts: Arc<Mutex<Facts>>,
    restarts: watch::Receiver<u64>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Supervised {
    /// Starts the daemon, once, and its task.
    pub(super) fn spawn(command: Command) -> Result<Self, DaemonError> {
        let facts = Arc::default();
        let child = command.spawn()?;
        let (count, restarts) = watch::channel(0);
        let (stop, stopped) = oneshot::channel();
        let program = command.program.clone();
        let task = Task {
            command,
            facts: Arc::clone(&facts),
            restarts: count,
        };
        task.note_start(&child);
        Ok(Supervised {
            program,
            facts,
            restarts,
            stop,
            task: tokio::spawn(task.run(child, stopped)),
        })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn pid(&self) -> Option<u32> {
        lock(&self.facts).pid
    }

    pub(super) fn restarts(&self) -> watch::Receiver<u64> {
        self.restarts.clone()
    }

    /// How it last ended, when it has ended more than once.
    pub(super) fn ended_twice(&self) -> Option<ExitStatus> {
        let facts = lock(&self.facts);
        facts
            .ended
            .filter(|_| facts.pid.is_none() && *self.restarts.borrow() > 0)
    }

    /// The end of its log.
    pub(super) fn last_words(&self) -> String {
        let facts = lock(&self.facts);
        if facts.last_words.is_empty() {
            return "nothing".to_owned();
        }
        facts
            .last_words
            .iter()
            .cloned()
            .collect::<Vec<_>>()
            .join(" | ")
    }

    /// Ends the daemon and its task.
    pub(super) async fn shutdown(self) {
        let _ = self.stop.send(());
        let mut task = self.task;
        if timeout(GRACE * 2, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// Spawns and reaps; nobody else does.
struct Task {
    command: Command,
    facts: Arc<Mutex<Facts>>,
    restarts: watch::Sender<u64>,
}

impl Task {
    async fn run(self, first: Child, mut stop: oneshot::Receiver<()>) {
        let mut child = Some(first);
        loop {
            if let Some(running) = child.take() {
                let Some(()) = self.watch(running, &mut stop).await else {
                    return;
                };
            }
            tokio::select! {
                _ = &mut stop => return,
                () = sleep(PAUSE_BEFORE_RESTART) => {}
            }
            child = self.restart();
        }
    }

    /// Waits for the end. `None` when the end was wanted.
    async fn watch(&self, mut child: Child, stop: &mut oneshot::Receiver<()>) -> Option<()> {
        let reader = child.stderr.take().map(|stderr| self.read_log(stderr));
        let status = tokio::select! {
            _ = stop => {
                end(&mut child, self.program()).await;
                return None;
            }
            status = child.wait() => status,
        };
        if let Some(reader) = reader {
            // Its children (QEMU) may hold the pipe open: what is there by now is read, no more.
            let _ = timeout(Duration::from_millis(100), reader).await;
        }
        let mut facts = lock(&self.facts);
        facts.pid = None;
        match status {
            Ok(status) => {
                facts.ended = Some(status);
                tracing::error!(program = %self.program().display(), %status, "a libvirt daemon ended and is restarted");
            }
            Err(error) => {
                tracing::error!(program = %self.program().display(), %error, "a libvirt daemon cannot be waited for");
            }
        }
        Some(())
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
        lock(&self.facts).pid = child.id();
        tracing::debug!(program = %self.program().display(), pid = child.id(), "a libvirt daemon was started");
    }

    fn read_log(&self, stderr: ChildStderr) -> JoinHandle<()> {
        let facts = Arc::clone(&self.facts);
        tokio::spawn(log_lines::each(stderr, move |line| {
            log_lines::log_libvirt(line);
            let mut facts = lock(&facts);
            if facts.last_words.len() == LAST_WORDS {
                facts.last_words.pop_front();
            }
            facts.last_words.push_back(line.to_owned());
        }))
    }
}

impl Command {
    fn spawn(&self) -> Result<Child, DaemonError> {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .arg("-f")
            .arg(&self.configuration)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let spawned = if self.bind_service {
            capability::with_bind_service(|| command.spawn())
        } else {
            command.spawn()
        };
        spawned.map_err(|source| DaemonError::Spawn {
            program: self.program.clone(),
            source,
        })
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
    if timeout(GRACE, child.wait()).await.is_err() {
        tracing::warn!(program = %program.display(), "a libvirt daemon ignores SIGTERM and is killed");
        let _ = child.kill().await;
    }
}

fn lock(facts: &Mutex<Facts>) -> std::sync::MutexGuard<'_, Facts> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}
