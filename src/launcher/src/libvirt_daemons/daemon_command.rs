//! Spawns a daemon's process, and ends it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Child;
use tokio::time::timeout;

use super::ambient_capability;
use super::error::DaemonError;
use super::restart_backoff::Backoff;
use super::socket_activation::SocketActivation;
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
            ambient_capability::with_bind_service(|| command.spawn())
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
