//! The paths on this machine of the pod's files.

use std::path::{Path, PathBuf};

use super::Pod;

impl Pod {
    /// The path on this machine of a path in the pod below `/run`, `/var/run`, `/etc/libvirt` or
    /// `/var/{lib,log,cache}/libvirt`. Other paths are returned unchanged.
    pub fn path(&self, in_pod: &str) -> PathBuf {
        const MOUNTS: [(&str, &str); 6] = [
            ("/var/run", "run"),
            ("/run", "run"),
            ("/etc/libvirt", "etc-libvirt"),
            ("/var/lib/libvirt", "var-lib-libvirt"),
            ("/var/log/libvirt", "var-log-libvirt"),
            ("/var/cache/libvirt", "var-cache-libvirt"),
        ];
        let path = Path::new(in_pod);
        for (prefix, directory_name) in MOUNTS {
            if let Ok(rest) = path.strip_prefix(prefix) {
                return self.directory.path().join(directory_name).join(rest);
            }
        }
        path.to_owned()
    }

    /// The directory that the launcher shares with virt-handler.
    pub fn share_dir(&self) -> PathBuf {
        self.path("/run/kubevirt")
    }

    /// The path of libvirt's socket on this machine.
    pub fn libvirt_socket(&self) -> PathBuf {
        // A distribution without `virtqemud` has `libvirtd`.
        ["virtqemud-sock", "libvirt-sock"]
            .map(|name| self.path("/run/libvirt").join(name))
            .into_iter()
            .find(|path| path.exists())
            .unwrap_or_else(|| self.path("/run/libvirt/virtqemud-sock"))
    }

    /// The file with the standard output and error of the pod's programs.
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}
