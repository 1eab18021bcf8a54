//! Writes the daemons' configuration files.
//!
//! The settings in the image's files are kept. Settings of KubeVirt's image are added if the file does not have them,
//! then those that flags, environment and node need. Writing a file again adds no setting twice.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{DaemonError, DaemonsConfig};

/// The settings of KubeVirt's image in `qemu.conf`.
const QEMU_SETTINGS: [(&str, &str); 8] = [
    ("stdio_handler", "\"logd\""),
    ("vnc_listen", "\"0.0.0.0\""),
    ("vnc_tls", "0"),
    ("vnc_sasl", "0"),
    ("dynamic_ownership", "1"),
    ("remember_owner", "0"),
    ("namespaces", "[ ]"),
    ("cgroup_controllers", "[ ]"),
];
/// The user as whom a system daemon runs QEMU. By number, since the image need not have its name.
const QEMU_USER_SETTINGS: [(&str, &str); 2] = [("user", "\"+107\""), ("group", "\"+107\"")];
/// The settings of KubeVirt's image in `virtqemud.conf`.
const DAEMON_SETTINGS: [(&str, &str); 3] = [
    ("listen_tls", "0"),
    ("listen_tcp", "0"),
    ("log_outputs", "\"1:stderr\""),
];
/// How many calls the daemon runs at the same time; see [`daemon_text`].
const CALL_LIMITS: [(&str, &str); 2] = [("max_client_requests", "32"), ("max_workers", "96")];

/// The files that the daemons are started with.
pub(super) struct ConfigFiles {
    pub(super) hypervisor: PathBuf,
    pub(super) logger: PathBuf,
}

/// Writes all files.
pub(super) fn write(config: &DaemonsConfig) -> Result<ConfigFiles, DaemonError> {
    let run = &config.paths.libvirt_run;
    create_directory(run)?;
    let shipped = config.etc.join("qemu.conf");
    let qemu = qemu_conf_path(config);
    create_directory(qemu.parent().unwrap_or(run))?;
    write_file(&qemu, &qemu_text(config, &read_shipped(&shipped)?))?;

    let hypervisor = run.join("virtqemud.conf");
    let text = daemon_text(config, &read_shipped(&config.etc.join("virtqemud.conf"))?);
    write_file(&hypervisor, &text)?;
    let logger = run.join("virtlogd.conf");
    write_file(&logger, &read_shipped(&config.etc.join("virtlogd.conf"))?)?;
    Ok(ConfigFiles { hypervisor, logger })
}

/// The path of `qemu.conf`. A system daemon reads only the image's file; a session daemon reads that of its user.
fn qemu_conf_path(config: &DaemonsConfig) -> PathBuf {
    if config.paths.non_root {
        config.paths.private.join("libvirt/qemu.conf")
    } else {
        config.etc.join("qemu.conf")
    }
}

fn qemu_text(config: &DaemonsConfig, shipped: &str) -> String {
    let mut text = ConfigText::new(shipped);
    for (key, value) in QEMU_SETTINGS {
        text.set_default(key, value);
    }
    if !config.paths.non_root {
        for (key, value) in QEMU_USER_SETTINGS {
            text.set_default(key, value);
        }
    }
    if Path::new("/dev/hugepages").exists() {
        text.set_default("hugetlbfs_mount", "\"/dev/hugepages\"");
    }
    if config.virtiofsd_debug {
        text.set("virtiofsd_debug", "1");
    }
    if !config.shared_filesystems.is_empty() {
        let paths: Vec<_> = config
            .shared_filesystems
            .iter()
            .map(|path| quote(path))
            .collect();
        text.set("shared_filesystems", &format!("[ {} ]", paths.join(", ")));
    }
    text.0
}

/// The text of the daemon's configuration.
///
/// A call to a QEMU or guest agent that hangs occupies one of the client's requests and one of the daemon's workers
/// until it ends. By libvirt's defaults the daemon stops reading from a client that has 5 running calls, and there are
/// 20 workers for ordinary calls. The launcher is the only relevant client. It has at most 16 blocking calls at a time,
/// and a few threads for ending the VM: it never has 32 requests at a time, and 96 workers are enough for three
/// connections whose calls all hang. Workers are threads that are started only when all others are busy, so the limit
/// costs nothing while no call hangs. The defaults of `prio_workers` (5, for calls that never wait for QEMU, including
/// those that end it) and of the limits on clients (5000, 1000 waiting, 20 before authentication, which is immediate on
/// a local socket) are enough.
fn daemon_text(config: &DaemonsConfig, shipped: &str) -> String {
    let mut text = ConfigText::new(shipped);
    for (key, value) in DAEMON_SETTINGS.into_iter().chain(CALL_LIMITS) {
        text.set_default(key, value);
    }
    if let Some(filters) = &config.log_filters {
        tracing::info!(filters, "libvirt's debug log is on");
        text.set("log_filters", &quote(filters));
    }
    text.0
}

/// Quotes a value. Quotes and control characters are removed, since libvirt's configuration has no escapes: they would
/// end the value.
fn quote(value: &str) -> String {
    let value: String = value
        .chars()
        .filter(|c| *c != '"' && !c.is_control())
        .collect();
    format!("\"{value}\"")
}

/// The text of a configuration file. If two lines have the same key, libvirt uses the last one.
struct ConfigText(String);

impl ConfigText {
    fn new(shipped: &str) -> Self {
        let mut text = shipped.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        ConfigText(text)
    }

    /// Adds a setting unless the key is set already.
    fn set_default(&mut self, key: &str, value: &str) {
        if !self.0.lines().any(|line| is_setting(line, key)) {
            self.0.push_str(&format!("{key} = {value}\n"));
        }
    }

    /// Adds a setting unless it is the last one for its key already.
    fn set(&mut self, key: &str, value: &str) {
        let line = format!("{key} = {value}");
        if self.0.lines().rfind(|line| is_setting(line, key)) != Some(line.as_str()) {
            self.0.push_str(&line);
            self.0.push('\n');
        }
    }
}

/// Whether the line sets the key.
fn is_setting(line: &str, key: &str) -> bool {
    line.trim_start()
        .strip_prefix(key)
        .is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// Reads a file of the image. A missing file, or one that this user may not read (as Debian's qemu.conf), counts as
/// empty.
fn read_shipped(path: &Path) -> Result<String, DaemonError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::debug!(path = %path.display(), "not readable; defaults are used instead");
            Ok(String::new())
        }
        Err(source) => Err(failure("read", path, source)),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), DaemonError> {
    // An unchanged file is not written, since it may be on a read-only mount.
    if fs::read_to_string(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|source| failure("write", path, source))
}

fn create_directory(path: &Path) -> Result<(), DaemonError> {
    fs::create_dir_all(path).map_err(|source| failure("create", path, source))
}

fn failure(action: &'static str, path: &Path, source: io::Error) -> DaemonError {
    DaemonError::Configuration {
        action,
        path: path.to_owned(),
        source,
    }
}

/// The lowest verbosity that turns on libvirt's debug log, as in KubeVirt.
const DEBUG_LOG_VERBOSITY: i64 = 5;
/// Filters for modules that log too much, at every verbosity. This list and [`QUIET_BELOW_VERBOSITY`] are KubeVirt's.
const VERBOSE_MODULES: &str = "3:remote 4:event 3:util.json 3:util.object 3:util.dbus 3:util.netlink \
                            3:node_device 3:rpc 3:access";
/// Filters for modules that log the commands to the guest agent, which may contain passwords. KubeVirt does not filter
/// these.
const SECRET_MODULES: &str = "3:qemu.qemu_agent 3:libvirt-qemu";
/// Further filters, which apply below the verbosity beside them.
const QUIET_BELOW_VERBOSITY: [(i64, &str); 3] = [
    (DEBUG_LOG_VERBOSITY + 3, "3:util.threadjob 3:cpu.cpu"),
    (DEBUG_LOG_VERBOSITY + 2, "3:qemu.qemu_monitor"),
    (
        DEBUG_LOG_VERBOSITY + 1,
        "3:qemu.qemu_monitor_json 3:conf.domain_addr",
    ),
];
/// The filter for all other modules: debug level.
const EVERYTHING_ELSE: &str = "1:*";

/// The `log_filters` setting; `None` if libvirt's debug log is off.
///
/// `flag` is `--libvirt-log-filters`, which wins. Otherwise `verbosity`, the variable `VIRT_LAUNCHER_LOG_VERBOSITY`,
/// decides, if it is high enough. Otherwise `debug`, which is whether `LIBVIRT_DEBUG_LOGS` is set, turns on the most
/// detailed log.
pub(crate) fn log_filters(flag: &str, verbosity: Option<&str>, debug: bool) -> Option<String> {
    if !flag.is_empty() {
        return Some(flag.to_owned());
    }
    let verbosity = verbosity
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(-1);
    match (verbosity >= DEBUG_LOG_VERBOSITY, debug) {
        (true, _) => Some(filters(verbosity)),
        (false, true) => Some(filters(i64::MAX)),
        (false, false) => None,
    }
}

fn filters(verbosity: i64) -> String {
    let quiet = QUIET_BELOW_VERBOSITY
        .iter()
        .filter(|(below, _)| verbosity < *below)
        .map(|(_, filters)| *filters);
    [VERBOSE_MODULES, SECRET_MODULES]
        .into_iter()
        .chain(quiet)
        .chain([EVERYTHING_ELSE])
        .collect::<Vec<_>>()
        .join(" ")
}

// Finds the programs of the daemons and of QEMU: virtqemud where libvirt is modular (KubeVirt's images), otherwise
// Debian's libvirtd.

/// The paths of the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DaemonBinaries {
    /// virtqemud or libvirtd.
    pub hypervisor: PathBuf,
    /// virtlogd; without it QEMU writes to files that are not rotated.
    pub logger: Option<PathBuf>,
    /// QEMU.
    pub qemu: PathBuf,
}

impl DaemonBinaries {
    /// Searches the directories, in their order.
    pub(crate) fn find(path: &[PathBuf]) -> Result<DaemonBinaries, DaemonError> {
        let hypervisor =
            first(path, &["virtqemud", "libvirtd"]).ok_or_else(|| DaemonError::NoDaemon {
                searched: path.into(),
            })?;
        let program = format!("qemu-system-{}", std::env::consts::ARCH);
        let qemu = first(path, &["qemu-kvm", &program]).ok_or_else(|| DaemonError::NoQemu {
            program,
            searched: path.into(),
        })?;
        Ok(DaemonBinaries {
            hypervisor,
            logger: first(path, &["virtlogd"]),
            qemu,
        })
    }

    /// The name of the hypervisor daemon's socket in libvirt's run-time directory.
    pub(crate) fn socket_name(&self) -> &'static str {
        if self.hypervisor.ends_with("virtqemud") {
            "virtqemud-sock"
        } else {
            "libvirt-sock"
        }
    }
}

/// The first of these names that exists in any directory. An earlier name wins over an earlier directory.
fn first(path: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| {
        path.iter()
            .map(|directory| directory.join(name))
            .find(|program| is_program(program))
    })
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_configuration_is_kept_and_settings_are_added_once() {
        let mut text = ConfigText::new("# user = \"x\"\nvnc_listen=\"::\"");
        for _ in 0..2 {
            text.set_default("vnc_listen", "\"0.0.0.0\"");
            text.set_default("user", "\"+107\"");
            text.set("log_filters", "\"1:*\"");
        }
        assert_eq!(
            text.0,
            "# user = \"x\"\nvnc_listen=\"::\"\nuser = \"+107\"\nlog_filters = \"1:*\"\n"
        );
    }

    #[test]
    fn value_cannot_inject_a_setting() {
        assert_eq!(quote("1:*\"\nuser = \"root"), "\"1:*user = root\"");
    }

    #[test]
    fn log_filter_flag_precedes_verbosity_precedes_debug() {
        assert_eq!(
            log_filters("1:qemu", Some("9"), true).as_deref(),
            Some("1:qemu")
        );
        assert_eq!(log_filters("", None, false), None);
        assert_eq!(log_filters("", Some("2"), false), None);
        assert_eq!(log_filters("", Some("lots"), false), None);
        assert_eq!(
            log_filters("", Some("2"), true),
            log_filters("", Some("99"), false)
        );
    }

    #[test]
    fn higher_verbosity_filters_less() {
        let at = |verbosity: &str| log_filters("", Some(verbosity), false).unwrap_or_default();
        assert!(at("5").contains("qemu_monitor_json"));
        assert!(!at("6").contains("qemu_monitor_json") && at("6").contains("qemu.qemu_monitor"));
        assert!(!at("7").contains("qemu_monitor") && at("7").contains("threadjob"));
        assert!(!at("8").contains("threadjob") && at("8").contains("3:rpc"));
        assert!(at("8").ends_with(" 1:*") && at("8").contains("3:qemu.qemu_agent"));
    }
}
