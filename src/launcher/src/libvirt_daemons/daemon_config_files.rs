//! The daemons' configuration files.
//!
//! What the image ships is kept; what KubeVirt's image sets and this one does not is added, and
//! then what flags, environment and node ask for. Writing it again adds nothing twice.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::DaemonsConfig;
use super::error::DaemonError;

/// What KubeVirt's image sets in `qemu.conf`.
const QEMU: [(&str, &str); 8] = [
    ("stdio_handler", "\"logd\""),
    ("vnc_listen", "\"0.0.0.0\""),
    ("vnc_tls", "0"),
    ("vnc_sasl", "0"),
    ("dynamic_ownership", "1"),
    ("remember_owner", "0"),
    ("namespaces", "[ ]"),
    ("cgroup_controllers", "[ ]"),
];
/// The user that a system daemon runs QEMU as, by number: the name need not exist.
const QEMU_USER: [(&str, &str); 2] = [("user", "\"+107\""), ("group", "\"+107\"")];
/// What KubeVirt's image sets in `virtqemud.conf`.
const DAEMON: [(&str, &str); 3] = [
    ("listen_tls", "0"),
    ("listen_tcp", "0"),
    ("log_outputs", "\"1:stderr\""),
];

/// How many calls run at the same time, see [`daemon_text`].
const CALLS: [(&str, &str); 2] = [("max_client_requests", "32"), ("max_workers", "96")];

/// The files that the daemons are started with.
pub(super) struct Files {
    pub(super) hypervisor: PathBuf,
    pub(super) logger: PathBuf,
}

/// Writes all of them.
pub(super) fn write(config: &DaemonsConfig) -> Result<Files, DaemonError> {
    let run = &config.paths.libvirt_run;
    create_directory(run)?;
    let shipped = config.etc.join("qemu.conf");
    let qemu = qemu_conf(config);
    create_directory(qemu.parent().unwrap_or(run))?;
    write_file(&qemu, &qemu_text(config, &read(&shipped)?))?;

    let hypervisor = run.join("virtqemud.conf");
    let text = daemon_text(config, &read(&config.etc.join("virtqemud.conf"))?);
    write_file(&hypervisor, &text)?;
    let logger = run.join("virtlogd.conf");
    write_file(&logger, &read(&config.etc.join("virtlogd.conf"))?)?;
    Ok(Files { hypervisor, logger })
}

/// A system daemon reads the shipped file and no other; a session daemon reads its user's.
fn qemu_conf(config: &DaemonsConfig) -> PathBuf {
    if config.paths.non_root {
        config.paths.private.join("libvirt/qemu.conf")
    } else {
        config.etc.join("qemu.conf")
    }
}

fn qemu_text(config: &DaemonsConfig, shipped: &str) -> String {
    let mut text = Text::new(shipped);
    for (key, value) in QEMU {
        text.default(key, value);
    }
    if !config.paths.non_root {
        for (key, value) in QEMU_USER {
            text.default(key, value);
        }
    }
    if Path::new("/dev/hugepages").exists() {
        text.default("hugetlbfs_mount", "\"/dev/hugepages\"");
    }
    if config.virtiofsd_debug {
        text.set("virtiofsd_debug", "1");
    }
    if !config.shared_filesystems.is_empty() {
        let paths: Vec<_> = config
            .shared_filesystems
            .iter()
            .map(|path| quoted(path))
            .collect();
        text.set("shared_filesystems", &format!("[ {} ]", paths.join(", ")));
    }
    text.0
}

/// A call to a QEMU or a guest agent that hangs occupies one of the client's requests and one of the
/// daemon's workers until it ends. By libvirt's defaults the daemon stops reading from a client with 5
/// calls under way, and ordinary calls get 20 workers. The launcher is the only client that matters
/// here and has at most 16 blocking calls at a time and a few threads of its own for ending the VM: 32
/// requests are more than it can have under way, and 96 workers serve three connections whose calls all
/// hang. Workers are threads that are started when all others are busy, so that the limit costs nothing
/// while nothing hangs. `prio_workers` (5, for calls that never
/// wait for QEMU, ending it included) and the limits on clients (5000, 1000 waiting, 20 before they
/// have authenticated, which a local socket does at once) are enough as they are.
fn daemon_text(config: &DaemonsConfig, shipped: &str) -> String {
    let mut text = Text::new(shipped);
    for (key, value) in DAEMON.into_iter().chain(CALLS) {
        text.default(key, value);
    }
    if let Some(filters) = &config.log_filters {
        tracing::info!(filters, "libvirt's debug log is on");
        text.set("log_filters", &quoted(filters));
    }
    text.0
}

/// libvirt's configuration knows no escapes: a quote or a line break would end the value.
fn quoted(value: &str) -> String {
    let value: String = value
        .chars()
        .filter(|c| *c != '"' && !c.is_control())
        .collect();
    format!("\"{value}\"")
}

/// A configuration file's text. Of two lines with the same key libvirt takes the last one.
struct Text(String);

impl Text {
    fn new(shipped: &str) -> Self {
        let mut text = shipped.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Text(text)
    }

    /// Adds a line unless the key is set already.
    fn default(&mut self, key: &str, value: &str) {
        if !self.0.lines().any(|line| sets(line, key)) {
            self.0.push_str(&format!("{key} = {value}\n"));
        }
    }

    /// Adds a line unless it is there already.
    fn set(&mut self, key: &str, value: &str) {
        let line = format!("{key} = {value}");
        if self.0.lines().rfind(|line| sets(line, key)) != Some(line.as_str()) {
            self.0.push_str(&line);
            self.0.push('\n');
        }
    }
}

fn sets(line: &str, key: &str) -> bool {
    line.trim_start()
        .strip_prefix(key)
        .is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// A shipped file. One that is absent or not for this user to read (Debian's qemu.conf is root's
/// alone) is as good as empty.
fn read(path: &Path) -> Result<String, DaemonError> {
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
    // A file on a read-only mount that says it all already needs no writing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_configuration_is_kept_and_settings_are_added_once() {
        let mut text = Text::new("# user = \"x\"\nvnc_listen=\"::\"");
        for _ in 0..2 {
            text.default("vnc_listen", "\"0.0.0.0\"");
            text.default("user", "\"+107\"");
            text.set("log_filters", "\"1:*\"");
        }
        assert_eq!(
            text.0,
            "# user = \"x\"\nvnc_listen=\"::\"\nuser = \"+107\"\nlog_filters = \"1:*\"\n"
        );
    }

    #[test]
    fn value_cannot_inject_a_setting() {
        assert_eq!(quoted("1:*\"\nuser = \"root"), "\"1:*user = root\"");
    }
}
