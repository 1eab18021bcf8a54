//! A libvirt session daemon in private namespaces.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use libvirt::HypervisorConnection;

use crate::driver_contract::wait_until;

/// The user of the daemon and QEMU.
pub(crate) const DAEMON_UID: u32 = 107;

/// A libvirt daemon in namespaces of its own. All processes in them end with their first process.
pub(crate) struct NamespacedDaemon {
    /// The first process of the namespaces.
    init: Child,
    /// The directory of the daemon's files.
    pub(crate) root: tempfile::TempDir,
}

impl NamespacedDaemon {
    fn start() -> Option<NamespacedDaemon> {
        let daemon = ["/usr/sbin/virtqemud", "/usr/sbin/libvirtd"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let run = root.path().join("run");
        fs::create_dir_all(run.join("libvirt")).unwrap();
        fs::write(run.join("libvirt/qemu.conf"), "stdio_handler = \"file\"\n").unwrap();
        for path in [run.clone(), run.join("libvirt")] {
            chown(&path, Some(DAEMON_UID), Some(DAEMON_UID)).unwrap();
        }
        let init = Command::new("unshare")
            .args(["-m", "-p", "-f", "--kill-child", "--mount-proc"])
            // The first process reaps children, since libvirt waits for the QEMUs that it probes, and keeps its user:
            // a change of the user would undo --kill-child.
            .args(["sh", "-c"])
            .arg("setpriv --reuid=107 --regid=107 --clear-groups \"$0\" & wait")
            .arg(daemon)
            .envs(["XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, &run)))
            .env_remove("XDG_DATA_HOME")
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .stderr(Stdio::from(
                fs::File::create(root.path().join("stderr")).unwrap(),
            ))
            .spawn()
            .ok()?;
        Some(NamespacedDaemon { init, root })
    }

    /// The daemon's socket. Waits until the daemon accepts connections, which is later than the socket's creation.
    pub(crate) fn socket(&self) -> PathBuf {
        let directory = self.root.path().join("run/libvirt");
        let sockets = ["virtqemud-sock", "libvirt-sock"].map(|name| directory.join(name));
        let listening_socket = || {
            sockets
                .iter()
                .find(|path| UnixStream::connect(path).is_ok())
        };
        wait_until("the daemon listens", || listening_socket().is_some());
        listening_socket().unwrap().clone()
    }

    pub(crate) fn connect(&self) -> Arc<dyn HypervisorConnection> {
        let uri = format!("qemu+unix:///session?socket={}", self.socket().display());
        libvirt::connect(&uri).unwrap()
    }

    /// The process id of QEMU, whose command line contains the daemon's directory.
    pub(crate) fn qemu_pid(&self) -> String {
        let root = self.root.path().to_str().unwrap();
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .find(|pid| {
                let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let command_line = String::from_utf8_lossy(&command_line);
                command_line.contains("guest=default_vm") && command_line.contains(root)
            })
            .unwrap()
    }
}

impl Drop for NamespacedDaemon {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}

/// Starts a daemon. Without root, QEMU or a daemon the test fails, since a test that tests nothing must not pass.
pub(crate) fn start_daemon() -> NamespacedDaemon {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let has_qemu = Path::new("/usr/bin/qemu-system-x86_64").exists();
    (is_root && has_qemu)
        .then(NamespacedDaemon::start)
        .flatten()
        .expect(
            "this needs root, qemu-system-x86_64 and virtqemud or libvirtd: 'make test' sets it up",
        )
}
