//! Errors of starting libvirt's daemons.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

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
