//! libvirt's daemons: found, configured, started, restarted, ended.
//!
//! ```text
//!          spawn            socket answers
//! (absent) ─────▶ starting ───────────────▶ serving
//!    ▲               │ ends                    │ ends
//!    └──── 1 s ──────┴─────────────────────────┘      shutdown(): SIGTERM, 5 s, SIGKILL
//! ```
//! Each daemon has one task ([`supervise`]) that alone spawns and reaps it. The daemon is a direct
//! child of the launcher, with no shell between: virt-handler finds it by that and by its name.

mod binaries;
mod capability;
mod configuration;
mod error;
mod log_filters;
mod log_lines;
mod qemu_log;
mod ready;
mod supervise;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use binaries::Binaries;
pub use error::DaemonError;
pub use log_filters::log_filters;

use crate::places::Places;
use supervise::{Command, Supervised};

/// What the daemons are started with.
#[derive(Debug, Clone)]
pub struct DaemonsConfig {
    /// Where things lie; also tells root from non-root.
    pub places: Places,
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
    /// Directories that are shared with other hosts (`SHARED_FILESYSTEM_PATHS`).
    pub shared_filesystems: Vec<String>,
    /// How long the daemon has to open its socket.
    pub ready_within: Duration,
}

impl DaemonsConfig {
    /// KubeVirt's: what flags and environment ask for, below `places`.
    pub fn new(
        places: &Places,
        domain: &str,
        filters_flag: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let shared = environment("SHARED_FILESYSTEM_PATHS").unwrap_or_default();
        DaemonsConfig {
            places: places.clone(),
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
            virtiofsd_debug: environment("VIRTIOFSD_DEBUG_LOGS").as_deref() == Some("1"),
            shared_filesystems: shared
                .split(':')
                .filter(|path| !path.is_empty())
                .map(str::to_owned)
                .collect(),
            ready_within: Duration::from_secs(10),
        }
    }
}

/// The running daemons. Dropping it kills them; [`Daemons::shutdown`] is the gentle way.
#[derive(Debug)]
pub struct Daemons {
    uri: String,
    hypervisor: Supervised,
    logger: Option<Supervised>,
    qemu_log: JoinHandle<()>,
}

/// Configures and starts the daemons, and returns when libvirt's socket answers.
pub async fn start(config: &DaemonsConfig) -> Result<Daemons, DaemonError> {
    let binaries = Binaries::find(&config.path)?;
    let files = configuration::write(config)?;
    let socket = config.places.libvirt_run.join(binaries.socket_name());
    let environment = environment(&config.places);
    let spawn = |program: &PathBuf, configuration: PathBuf| {
        Supervised::spawn(Command {
            program: program.clone(),
            configuration,
            environment: environment.clone(),
            bind_service: config.places.non_root,
        })
    };
    let logger = binaries
        .logger
        .as_ref()
        .map(|program| spawn(program, files.logger))
        .transpose()?;
    let hypervisor = spawn(&binaries.hypervisor, files.hypervisor)?;
    ready::wait(&hypervisor, &socket, config.ready_within).await?;
    Ok(Daemons {
        uri: uri(config.places.non_root, &socket),
        hypervisor,
        logger,
        qemu_log: tokio::spawn(qemu_log::follow(config.places.qemu_log(&config.domain))),
    })
}

impl Daemons {
    /// What to connect libvirt to.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The hypervisor daemon's process, e.g. to set its memory lock limit; none between two lives.
    pub fn pid(&self) -> Option<u32> {
        self.hypervisor.pid()
    }

    /// How often the hypervisor daemon was restarted; changes when it is.
    pub fn restarts(&self) -> watch::Receiver<u64> {
        self.hypervisor.restarts()
    }

    /// Ends the daemons: asked first, killed after 5 s. Domains are not touched.
    pub async fn shutdown(self) {
        self.qemu_log.abort();
        let logger = async {
            if let Some(logger) = self.logger {
                logger.shutdown().await;
            }
        };
        tokio::join!(self.hypervisor.shutdown(), logger);
    }
}

/// Session daemons keep their files where these point; system daemons do not look at them.
fn environment(places: &Places) -> Vec<(&'static str, PathBuf)> {
    if !places.non_root {
        return Vec::new();
    }
    let run = places.libvirt_run.parent().unwrap_or(&places.libvirt_run);
    vec![
        ("XDG_RUNTIME_DIR", run.to_owned()),
        ("XDG_CONFIG_HOME", places.private.clone()),
        ("XDG_CACHE_HOME", places.private.clone()),
    ]
}

fn uri(non_root: bool, socket: &std::path::Path) -> String {
    if non_root {
        format!("qemu+unix:///session?socket={}", socket.display())
    } else {
        "qemu:///system".to_owned()
    }
}
