//! Starts, supervises and ends libvirt's daemons.
//!
//! ```text
//!          spawn            socket answers
//! (absent) ─────▶ starting ───────────────▶ serving
//!    ▲               │ ends                    │ ends
//!    └─── back-off ──┴─────────────────────────┘      shutdown(): SIGTERM, 0.7 s, SIGKILL
//! ```
//! Each daemon has a task that spawns and reaps it. The daemon is a direct child of the launcher, without a shell in
//! between, since virt-handler finds the daemon by its parent and its name.

mod ambient_capability;
mod broken_qemu_log_pipes;
mod config_from_flags_and_env;
mod daemon_binaries;
mod daemon_command;
mod daemon_config_files;
mod error;
mod log_filters;
mod log_lines;
mod orphaned_capability_probes;
mod qemu_log_tail;
mod qemu_log_takeover;
mod restart_backoff;
mod restart_task;
mod rotating_file;
mod seabios_log;
mod seabios_log_rate_limit;
mod socket_activation;
mod supervised_daemon;
mod wait_for_socket;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use config_from_flags_and_env::DaemonsConfig;
pub(crate) use daemon_binaries::DaemonBinaries;
pub(crate) use error::DaemonError;

use crate::migration_error_log::MigrationErrorLog;
use crate::paths::Paths;
use daemon_command::DaemonCommand;
use qemu_log_takeover::QemuLogs;
use restart_backoff::Backoff;
use socket_activation::SocketActivation;
use supervised_daemon::SupervisedDaemon;
use wait_for_socket::wait_for_socket;

/// The name of virtlogd's socket in libvirt's run-time directory.
const LOGGER_SOCKET: &str = "virtlogd-sock";

/// The running daemons. Dropping this kills them; [`Daemons::shutdown`] lets them end.
#[derive(Debug)]
pub(crate) struct Daemons {
    uri: String,
    hypervisor: SupervisedDaemon,
    logger: Option<Logger>,
    qemu_log: JoinHandle<()>,
    firmware_log: Option<JoinHandle<()>>,
    migration_log: MigrationErrorLog,
}

/// virtlogd, and the task that continues its logs when it ends.
#[derive(Debug)]
struct Logger {
    daemon: SupervisedDaemon,
    log_takeover: JoinHandle<()>,
    lost: watch::Receiver<Option<String>>,
}

/// Configures and starts the daemons. Returns when libvirt's socket accepts connections.
pub(crate) async fn start(config: &DaemonsConfig) -> Result<Daemons, DaemonError> {
    let binaries = DaemonBinaries::find(&config.path)?;
    let firmware_log = config.firmware_log.as_deref();
    let firmware_log = firmware_log.and_then(seabios_log::follow);
    let files = daemon_config_files::write(config)?;
    let socket = config.paths.libvirt_run.join(binaries.socket_name());
    let environment = environment(&config.paths);
    let command = |program: &PathBuf, configuration: PathBuf| DaemonCommand {
        program: program.clone(),
        configuration,
        environment: environment.clone(),
        bind_service: config.paths.non_root,
        socket_activation: None,
        backoff: Backoff::Fixed,
        capability_probes: None,
        migration_log: config.migration_log.clone(),
    };
    let logger = binaries
        .logger
        .as_ref()
        .map(|program| start_logger(config, command(program, files.logger)))
        .transpose()?;
    let mut hypervisor = command(&binaries.hypervisor, files.hypervisor);
    hypervisor.capability_probes = Some(config.paths.qemu_lib.clone());
    let hypervisor = SupervisedDaemon::spawn(hypervisor)?;
    wait_for_socket(&hypervisor, &socket, config.ready_within).await?;
    Ok(Daemons {
        uri: uri(config.paths.non_root, &socket),
        hypervisor,
        logger,
        firmware_log,
        qemu_log: tokio::spawn(qemu_log_tail::follow(config.paths.qemu_log(&config.domain))),
        migration_log: config.migration_log.clone(),
    })
}

fn start_logger(config: &DaemonsConfig, mut command: DaemonCommand) -> Result<Logger, DaemonError> {
    let socket = config.paths.libvirt_run.join(LOGGER_SOCKET);
    command.socket_activation = match SocketActivation::listen(&socket) {
        Ok(socket_activation) => Some(socket_activation),
        Err(error) => {
            tracing::warn!(socket = %socket.display(), %error, "virtlogd opens its socket itself; a VM that is started while virtlogd is away fails");
            None
        }
    };
    command.backoff = Backoff::GROWING;
    let daemon = SupervisedDaemon::spawn(command)?;
    let (lost_sender, lost) = watch::channel(None);
    let logs = QemuLogs::new(&config.paths, &config.domain);
    let log_takeover = tokio::spawn(qemu_log_takeover::run(logs, daemon.ends(), lost_sender));
    Ok(Logger {
        daemon,
        log_takeover,
        lost,
    })
}

impl Daemons {
    /// The URI to connect to.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The process id of the hypervisor daemon; `None` while the daemon is down.
    #[cfg(test)]
    pub(crate) fn pid(&self) -> Option<u32> {
        self.hypervisor.pid()
    }

    /// How often the hypervisor daemon was restarted.
    #[cfg(test)]
    pub(crate) fn restarts(&self) -> watch::Receiver<u64> {
        self.hypervisor.restarts()
    }

    /// The errors that the daemons have logged about the migration from this pod.
    pub(crate) fn migration_log(&self) -> MigrationErrorLog {
        self.migration_log.clone()
    }

    /// A receiver that gets a message for the VM's owner when a log of the running VM is lost for good.
    pub(crate) fn lost_logs(&self) -> Option<watch::Receiver<Option<String>>> {
        self.logger.as_ref().map(|logger| logger.lost.clone())
    }

    /// Ends the daemons: by SIGTERM, and by SIGKILL after 0.7 s. Domains keep running.
    pub(crate) async fn shutdown(self) {
        self.qemu_log.abort();
        if let Some(log) = self.firmware_log {
            log.abort();
        }
        let logger = async {
            if let Some(logger) = self.logger {
                logger.log_takeover.abort();
                logger.daemon.shutdown().await;
            }
        };
        tokio::join!(self.hypervisor.shutdown(), logger);
    }
}

/// The environment variables with the directories for the files of session daemons; empty for system daemons.
fn environment(paths: &Paths) -> Vec<(&'static str, PathBuf)> {
    if !paths.non_root {
        return Vec::new();
    }
    let run = paths.libvirt_run.parent().unwrap_or(&paths.libvirt_run);
    vec![
        ("XDG_RUNTIME_DIR", run.to_owned()),
        ("XDG_CONFIG_HOME", paths.private.clone()),
        ("XDG_CACHE_HOME", paths.private.clone()),
    ]
}

fn uri(non_root: bool, socket: &std::path::Path) -> String {
    if non_root {
        format!("qemu+unix:///session?socket={}", socket.display())
    } else {
        "qemu:///system".to_owned()
    }
}
