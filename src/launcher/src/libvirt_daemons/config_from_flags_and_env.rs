//! The configuration of libvirt's daemons, from flags and environment.

use std::path::PathBuf;
use std::time::Duration;

use super::log_filters::log_filters;
use crate::migration_error_log::MigrationErrorLog;
use crate::paths::Paths;

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
