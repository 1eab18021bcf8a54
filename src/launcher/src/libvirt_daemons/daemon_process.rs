//! Spawns a daemon's process, and ends it.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use rustix::thread::{
    CapabilitySet, capabilities, capability_is_in_ambient_set, configure_capability_in_ambient_set,
    set_capabilities,
};
use tokio::process::Child;
use tokio::time::timeout;

use super::DaemonError;
use crate::migration_error_log::MigrationErrorLog;

/// How long a daemon may take to end after SIGTERM. A healthy daemon takes a tenth of this. A stopped one (SIGSTOP)
/// never ends by SIGTERM, and must not delay the launcher's end.
pub(super) const TERM_TIMEOUT: Duration = Duration::from_millis(700);

/// How a daemon is started and restarted.
#[derive(Debug, Clone)]
pub(super) struct DaemonCommand {
    pub(super) program: PathBuf,
    pub(super) configuration: PathBuf,
    pub(super) environment: Vec<(&'static str, PathBuf)>,
    /// Whether CAP_NET_BIND_SERVICE is passed on.
    pub(super) bind_service: bool,
    /// The socket that the launcher passes to the daemon.
    pub(super) socket_activation: Option<SocketActivation>,
    /// The pauses between an end and the next start.
    pub(super) backoff: Backoff,
    /// libvirt's directory for QEMU, for the daemon that starts QEMU to probe its capabilities.
    pub(super) capability_probes: Option<PathBuf>,
    /// Collects the daemon's errors about migrations.
    pub(super) migration_log: MigrationErrorLog,
}

impl DaemonCommand {
    pub(super) fn spawn(&self) -> Result<Child, DaemonError> {
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
            with_bind_service(|| command.spawn())
        } else {
            command.spawn()
        };
        spawned.map_err(failed)
    }
}

/// Ends the daemon by SIGTERM, and by SIGKILL after [`TERM_TIMEOUT`].
pub(super) async fn terminate(child: &mut Child, program: &Path) {
    let pid = child
        .id()
        .and_then(|pid| rustix::process::Pid::from_raw(pid.try_into().ok()?));
    if let Some(pid) = pid {
        // The daemon has not been reaped, so no other process can have its pid.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if timeout(TERM_TIMEOUT, child.wait()).await.is_err() {
        tracing::warn!(program = %program.display(), "a libvirt daemon ignores SIGTERM and is killed");
        let _ = child.kill().await;
    }
}

/// A daemon that has run for this long counts as healthy.
const HEALTHY_RUN_TIME: Duration = Duration::from_secs(10);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The first pause, which is KubeVirt's: a daemon that crashes at once must not occupy a CPU.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The backoff policy of one daemon.
#[derive(Debug, Clone, Copy)]
pub(super) enum Backoff {
    /// The pause is always 1 s, as in KubeVirt.
    Fixed,
    /// No pause after a healthy run; otherwise 1 s, doubled each time, up to 30 s.
    Growing {
        /// The pause after the next short run.
        pause: Duration,
    },
}

impl Backoff {
    pub(super) const GROWING: Backoff = Backoff::Growing { pause: FIRST_PAUSE };

    /// The pause after a run of `run_time`, which is `None` if the daemon could not be started.
    pub(super) fn next(&mut self, run_time: Option<Duration>) -> Duration {
        let Backoff::Growing { pause } = self else {
            return FIRST_PAUSE;
        };
        if run_time.is_some_and(|run_time| run_time >= HEALTHY_RUN_TIME) {
            *pause = FIRST_PAUSE;
            return Duration::ZERO;
        }
        let current = *pause;
        *pause = (current * 2).min(MAX_PAUSE);
        current
    }
}

// Passes CAP_NET_BIND_SERVICE on to a daemon that is not root.
//
// The monitor gives the capability to the launcher as an ambient one, which children inherit. If the launcher got it
// in another way (capabilities of its file), it is put into the ambient set of the spawning thread during the spawn.

const NET_BIND_SERVICE: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// Runs `spawn` with the capability in the ambient set, if this process has it.
pub(super) fn with_bind_service<T>(spawn: impl FnOnce() -> T) -> T {
    let raised = raise().unwrap_or_else(|error| {
        tracing::debug!(%error, "CAP_NET_BIND_SERVICE cannot be passed on");
        false
    });
    let spawned = spawn();
    if raised {
        // Best effort: if this fails, the thread keeps a capability that the process has anyway.
        let _ = configure_capability_in_ambient_set(NET_BIND_SERVICE, false);
    }
    spawned
}

/// Puts the capability into the ambient set; false if it was there already or the process does not have it.
fn raise() -> io::Result<bool> {
    if capability_is_in_ambient_set(NET_BIND_SERVICE)? {
        return Ok(false);
    }
    let mut sets = capabilities(None)?;
    if !sets.permitted.contains(NET_BIND_SERVICE) {
        return Ok(false);
    }
    sets.inheritable |= NET_BIND_SERVICE;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(NET_BIND_SERVICE, true)?;
    Ok(true)
}

// Socket activation of virtlogd: the launcher keeps the listening socket, and passes it to each virtlogd as systemd
// would.
//
// While virtlogd does not run, libvirt's daemon can still connect: the connection waits in the listen queue until the
// next virtlogd accepts it, so that a VM's start waits instead of failing. Without this a session daemon would start a
// virtlogd of its own, which would keep the launcher's virtlogd from starting.

const SHELL: &str = "/bin/sh";
/// A shell script that executes the daemon with the socket as descriptor 3, and with its process id in a variable, as
/// the protocol demands. The script gets the socket as standard input. The daemon has the shell's process id.
const ACTIVATION_SCRIPT: &str = "exec 3<&0 </dev/null; \
    LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=virtlogd.socket exec \"$0\" \"$@\"";

/// A listening socket that outlives the daemon's processes.
#[derive(Debug, Clone)]
pub(super) struct SocketActivation {
    socket: Arc<Socket>,
}

#[derive(Debug)]
struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl SocketActivation {
    /// Listens on `path`. Removes the socket of a virtlogd that has ended.
    pub(super) fn listen(path: &Path) -> io::Result<SocketActivation> {
        if !Path::new(SHELL).exists() {
            return Err(io::Error::other(format!("there is no {SHELL}")));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        Ok(SocketActivation {
            socket: Arc::new(Socket {
                path: path.to_owned(),
                listener,
            }),
        })
    }

    /// A command that runs `program` with the socket.
    pub(super) fn command(&self, program: &Path) -> io::Result<tokio::process::Command> {
        let socket: OwnedFd = self.socket.listener.try_clone()?.into();
        let mut command = tokio::process::Command::new(SHELL);
        command
            .args(["-c", ACTIVATION_SCRIPT])
            .arg(program)
            .stdin(Stdio::from(socket));
        Ok(command)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_pauses_grow_and_reset_after_a_long_run() {
        let mut backoff = Backoff::GROWING;
        let mut pauses = [
            None,
            Some(0),
            Some(1),
            Some(9),
            Some(2),
            None,
            Some(0),
            Some(11),
            Some(0),
        ]
        .map(|ran| backoff.next(ran.map(Duration::from_secs)).as_secs())
        .to_vec();
        assert_eq!(pauses.split_off(7), [0, 1]);
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn fixed_pause_does_not_change() {
        let mut backoff = Backoff::Fixed;
        for ran in [None, Some(Duration::from_secs(3600))] {
            assert_eq!(backoff.next(ran), FIRST_PAUSE);
        }
    }
}
