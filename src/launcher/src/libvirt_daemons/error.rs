//! Why libvirt's daemons cannot be used.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// The daemons cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// No daemon is installed.
    #[error(
        "no libvirt daemon: neither virtqemud nor libvirtd is in {}; install libvirt-daemon and \
         libvirt-daemon-driver-qemu (Debian) or libvirt-daemon-driver-qemu (Fedora, CentOS)",
        list(searched)
    )]
    NoDaemon {
        /// Where was looked.
        searched: Vec<PathBuf>,
    },
    /// No QEMU is installed.
    #[error(
        "no QEMU: neither qemu-kvm nor {program} is in {}; install qemu-system-x86 (Debian) or \
         qemu-kvm (Fedora, CentOS)",
        list(searched)
    )]
    NoQemu {
        /// The emulator of this architecture.
        program: String,
        /// Where was looked.
        searched: Vec<PathBuf>,
    },
    /// A configuration file cannot be read or written.
    #[error("cannot {action} {path} for libvirt's configuration: {source}")]
    Configuration {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A daemon cannot be executed.
    #[error("cannot execute {program}: {source}")]
    Spawn {
        /// The daemon.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A daemon ends as soon as it is started.
    #[error(
        "{program} ended twice ({status}) before it listened on {socket}; its last log lines: {last_log_lines}"
    )]
    Ended {
        /// The daemon.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The socket it should have opened.
        socket: PathBuf,
        /// The end of its log.
        last_log_lines: String,
    },
    /// A daemon runs, but does not open its socket.
    #[error(
        "{program} does not listen on {socket} after {waited:?}; its last log lines: {last_log_lines}"
    )]
    NotReady {
        /// The daemon.
        program: PathBuf,
        /// The socket it should have opened.
        socket: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// The end of its log.
        last_log_lines: String,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}
