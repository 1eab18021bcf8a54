//! libvirt's daemons: found, configured, started, restarted, ended.
//!
//! ```text
//!          spawn            socket answers
//! (absent) ─────▶ starting ───────────────▶ serving
//!    ▲               │ ends                    │ ends
//!    └─── back-off ──┴─────────────────────────┘      shutdown(): SIGTERM, 0.7 s, SIGKILL
//! ```
//! Each daemon has one task (`supervised_daemon`) that alone spawns and reaps it. The daemon is a direct
//! child of the launcher, with no shell between: virt-handler finds it by that and by its name.

mod ambient_capability;
mod daemon_binaries;
mod daemon_config_files;
mod error;
mod log_filters;
mod log_lines;
mod orphaned_capability_probes;
mod qemu_log;
mod qemu_log_takeover;
mod reopen_qemu_log_pipes;
mod restart_backoff;
mod rotating_file;
mod seabios_log;
mod seabios_log_rate_limit;
mod socket_activation;
mod supervised_daemon;
mod wait_for_socket;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use daemon_binaries::Binaries;
pub(crate) use error::DaemonError;
pub(crate) use log_filters::log_filters;

use crate::first_migration_error_in_libvirt_log::MigrationErrorLog;
use crate::paths::Paths;
use qemu_log_takeover::QemuLogs;
use restart_backoff::Backoff;
use socket_activation::SocketActivation;
use supervised_daemon::{DaemonCommand, SupervisedDaemon};
use wait_for_socket::wait_for_socket;

/// In libvirt's run-time directory.
const LOGGER_SOCKET: &str = "virtlogd-sock";

/// What the daemons are started with.
#[derive(Debug, Clone)]
pub(crate) struct DaemonsConfig {
    /// Where things lie; also tells root from non-root.
    pub paths: Paths,
    /// The domain whose QEMU log is followed.
    pub domain: String,
    /// libvirt's configuration as the image ships it: `/etc/libvirt`.
    pub etc: PathBuf,
    /// Where programs are looked for.
    pub path: Vec<PathBuf>,
    /// libvirt's `log_filters`; see [`log_filters`].
    pub log_filters: Option<String>,
    /// virtiofsd logs in detail (`VIRTIOFSD_DEBUG_LOGS=1`).
    pub virtiofsd_debug: bool,
    /// The named pipe with the firmware's log, if that is read.
    pub firmware_log: Option<PathBuf>,
    /// Directories that are shared with other hosts (`SHARED_FILESYSTEM_PATHS`).
    pub shared_filesystems: Vec<String>,
    /// How long the daemon has to open its socket.
    pub ready_within: Duration,
    /// Takes in the daemons' errors.
    pub migration_log: MigrationErrorLog,
}

impl DaemonsConfig {
    /// KubeVirt's: what flags and environment ask for, below `paths`.
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

/// The running daemons. Dropping it kills them; [`Daemons::shutdown`] is the gentle way.
#[derive(Debug)]
pub(crate) struct Daemons {
    uri: String,
    hypervisor: SupervisedDaemon,
    logger: Option<Logger>,
    qemu_log: JoinHandle<()>,
    firmware_log: Option<JoinHandle<()>>,
    migration_log: MigrationErrorLog,
}

/// virtlogd, and what continues its logs when it ends.
#[derive(Debug)]
struct Logger {
    daemon: SupervisedDaemon,
    log_takeover: JoinHandle<()>,
    lost: watch::Receiver<Option<String>>,
}

/// Configures and starts the daemons, and returns when libvirt's socket answers.
pub(crate) async fn start(config: &DaemonsConfig) -> Result<Daemons, DaemonError> {
    let binaries = Binaries::find(&config.path)?;
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
    let log_takeover = tokio::spawn(qemu_log_takeover::run(logs, daemon.ends(), lost_sender));
    Ok(Logger {
        daemon,
        log_takeover,
        lost,
    })
}

impl Daemons {
    /// What to connect libvirt to.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The hypervisor daemon's process; none while the daemon is down.
    #[cfg(test)]
    pub(crate) fn pid(&self) -> Option<u32> {
        self.hypervisor.pid()
    }

    /// How often the hypervisor daemon was restarted.
    #[cfg(test)]
    pub(crate) fn restarts(&self) -> watch::Receiver<u64> {
        self.hypervisor.restarts()
    }

    /// What the daemons have logged about the migration from this pod.
    pub(crate) fn migration_log(&self) -> MigrationErrorLog {
        self.migration_log.clone()
    }

    /// Changes when a running VM's log is lost for good, to a sentence for the VM's owner.
    pub(crate) fn lost_logs(&self) -> Option<watch::Receiver<Option<String>>> {
        self.logger.as_ref().map(|logger| logger.lost.clone())
    }

    /// Ends the daemons: asked first, killed after 0.7 s. Domains are not touched.
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

/// Session daemons keep their files where these point; system daemons do not look at them.
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
