//! The directories of a pod: their creation, and the paths of files in the pod on this machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Pod, is_root};

/// QEMU's user and group in KubeVirt.
const QEMU_UID: u32 = 107;

/// `qemu.conf` in KubeVirt's image.
pub(super) const QEMU_CONF: &str = "stdio_handler = \"logd\"\nvnc_listen = \"0.0.0.0\"\nvnc_tls = 0\nvnc_sasl = 0\n\
    user = \"qemu\"\ngroup = \"qemu\"\ndynamic_ownership = 1\nremember_owner = 0\nnamespaces = [ ]\n\
    cgroup_controllers = [ ]\n";
/// `virtqemud.conf` in KubeVirt's image.
pub(super) const VIRTQEMUD_CONF: &str =
    "listen_tls = 0\nlisten_tcp = 0\nlog_outputs = \"1:stderr\"\n";

impl Pod {
    pub(super) fn create_directories(&self) -> Result<()> {
        let root = self.directory.path();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        for name in [
            "run",
            "etc-libvirt",
            "var-lib-libvirt",
            "var-log-libvirt",
            "var-cache-libvirt",
            "mask",
            "masked",
            "bin",
        ] {
            create_owned_dir(&root.join(name), 0o755)?;
        }
        fs::write(root.join("etc-libvirt/qemu.conf"), QEMU_CONF)?;
        fs::write(root.join("etc-libvirt/virtqemud.conf"), VIRTQEMUD_CONF)?;
        fs::write(root.join("pod.sh"), include_str!("pod.sh"))?;
        // Kubernetes creates emptyDirs of a pod with fsGroup 107 with this owner and mode.
        for name in [
            "kubevirt",
            "kubevirt/sockets",
            "kubevirt/container-disks",
            "kubevirt/hotplug-disks",
            "kubevirt-private",
            "kubevirt-ephemeral-disks",
            "libvirt",
        ] {
            create_owned_dir(&root.join("run").join(name), 0o2777)?;
        }
        Ok(())
    }

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

    /// The hooks directory. The first call creates it, since only a pod with hooks has one.
    pub fn hooks_dir(&self) -> Result<PathBuf> {
        let directory = self.path("/run/kubevirt-hooks");
        if !directory.is_dir() {
            create_owned_dir(&directory, 0o2777)?;
        }
        Ok(directory)
    }

    /// Creates a directory that belongs to QEMU's user.
    pub fn create_qemu_dir(&self, in_pod: &str) -> Result<PathBuf> {
        let path = self.path(in_pod);
        create_owned_dir(&path, 0o2777)?;
        Ok(path)
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

/// Creates a directory with exactly this mode. It belongs to QEMU's user if the mode has the setgid bit, else to root.
fn create_owned_dir(path: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("{}", path.display()))?;
    if is_root() {
        let owner = if mode & 0o2000 == 0 { 0 } else { QEMU_UID };
        chown(path, Some(owner), Some(owner))?;
    }
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
