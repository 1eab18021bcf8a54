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

mod daemon_config_files;
mod daemon_process;
mod log_lines;
mod qemu_log;
mod seabios_log;
mod supervised_daemon;

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::migration_error_log::MigrationErrorLog;
use crate::paths::Paths;
pub(crate) use daemon_config_files::DaemonBinaries;
use daemon_config_files::log_filters;
use daemon_process::{Backoff, DaemonCommand, SocketActivation};
use qemu_log::QemuLogs;
use supervised_daemon::{SupervisedDaemon, wait_for_socket};

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
        qemu_log: tokio::spawn(qemu_log::follow(config.paths.qemu_log(&config.domain))),
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
    let log_takeover = tokio::spawn(qemu_log::take_over(logs, daemon.ends(), lost_sender));
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

/// The daemons could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// No daemon is installed.
    #[error(
        "no libvirt daemon: neither virtqemud nor libvirtd is in {}; install libvirt-daemon and \
         libvirt-daemon-driver-qemu (Debian) or libvirt-daemon-driver-qemu (Fedora, CentOS)",
        join_paths(searched)
    )]
    NoDaemon {
        /// The directories that were searched.
        searched: Vec<PathBuf>,
    },
    /// No QEMU is installed.
    #[error(
        "no QEMU: neither qemu-kvm nor {program} is in {}; install {} (Debian) or \
         qemu-kvm (Fedora, CentOS)",
        join_paths(searched),
        debian_package(program)
    )]
    NoQemu {
        /// The name of QEMU's program for this architecture.
        program: String,
        /// The directories that were searched.
        searched: Vec<PathBuf>,
    },
    /// A configuration file could not be read or written.
    #[error("cannot {action} {path} for libvirt's configuration: {source}")]
    Configuration {
        /// The operation: `read`, `write` or `create`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A daemon could not be executed.
    #[error("cannot execute {program}: {source}")]
    Spawn {
        /// The daemon.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A daemon ended twice before it opened its socket.
    #[error(
        "{program} ended twice ({status}) before it listened on {socket}; its last log lines: {last_log_lines}"
    )]
    Ended {
        /// The daemon.
        program: PathBuf,
        /// The exit status.
        status: ExitStatus,
        /// The expected socket.
        socket: PathBuf,
        /// The end of the daemon's log.
        last_log_lines: String,
    },
    /// A daemon runs, but has not opened its socket in time.
    #[error(
        "{program} does not listen on {socket} after {waited:?}; its last log lines: {last_log_lines}"
    )]
    NotReady {
        /// The daemon.
        program: PathBuf,
        /// The expected socket.
        socket: PathBuf,
        /// How long the launcher waited.
        waited: Duration,
        /// The end of the daemon's log.
        last_log_lines: String,
    },
}

/// The Debian package with QEMU's program. `qemu-system` depends on the packages of all architectures.
fn debian_package(program: &str) -> &'static str {
    match program {
        "qemu-system-x86_64" => "qemu-system-x86",
        "qemu-system-aarch64" => "qemu-system-arm",
        _ => "qemu-system",
    }
}

fn join_paths(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// The configuration of the daemons.
#[derive(Debug, Clone)]
pub(crate) struct DaemonsConfig {
    /// The launcher's files and directories, and whether the launcher is root.
    pub paths: Paths,
    /// The domain whose QEMU log is followed.
    pub domain: String,
    /// The directory of libvirt's configuration in the image: `/etc/libvirt`.
    pub etc: PathBuf,
    /// The directories that are searched for programs.
    pub path: Vec<PathBuf>,
    /// libvirt's `log_filters`; see [`log_filters`].
    pub log_filters: Option<String>,
    /// Whether virtiofsd logs in detail (`VIRTIOFSD_DEBUG_LOGS=1`).
    pub virtiofsd_debug: bool,
    /// The named pipe with the firmware's log, if the log is read.
    pub firmware_log: Option<PathBuf>,
    /// Directories that are shared with other hosts (`SHARED_FILESYSTEM_PATHS`).
    pub shared_filesystems: Vec<String>,
    /// How long the daemon may take to open its socket.
    pub ready_within: Duration,
    /// Collects the daemons' errors about migrations.
    pub migration_log: MigrationErrorLog,
}

impl DaemonsConfig {
    /// The configuration for these paths, `--libvirt-log-filters` and KubeVirt's environment variables.
    pub(crate) fn new(
        paths: &Paths,
        domain: &str,
        filters_flag: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let shared = environment("SHARED_FILESYSTEM_PATHS").unwrap_or_default();
        DaemonsConfig {
            paths: paths.clone(),
            domain: domain.to_owned(),
            etc: "/etc/libvirt".into(),
            path: [
                "/usr/sbin",
                "/usr/bin",
                "/usr/libexec",
                "/usr/local/sbin",
                "/usr/local/bin",
            ]
            .map(PathBuf::from)
            .into(),
            log_filters: log_filters(
                filters_flag,
                environment("VIRT_LAUNCHER_LOG_VERBOSITY").as_deref(),
                environment("LIBVIRT_DEBUG_LOGS").is_some(),
            ),
            firmware_log: None,
            virtiofsd_debug: environment("VIRTIOFSD_DEBUG_LOGS").as_deref() == Some("1"),
            shared_filesystems: shared
                .split(':')
                .filter(|path| !path.is_empty())
                .map(str::to_owned)
                .collect(),
            ready_within: Duration::from_secs(10),
            migration_log: MigrationErrorLog::default(),
        }
    }
}

#[cfg(test)]
mod tests;
