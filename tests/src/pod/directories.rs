//! Creates the directories of a pod.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Pod, is_root};
use crate::launcher_user::LauncherUser;

/// The user of QEMU in KubeVirt's image.
const QEMU_USER: LauncherUser = LauncherUser::Nonroot;
/// The file that is `/dev/termination-log` in the pod.
const TERMINATION_LOG: &str = "termination-log";

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
            // Empty files that replace files of this machine, and links of the same names to the replaced files.
            "mask",
            "masked",
            "bin",
        ] {
            create_owned_dir(&root.join(name), LauncherUser::Root, 0o755)?;
        }
        self.write_daemon_configuration()?;
        fs::write(root.join("pod.sh"), include_str!("pod.sh"))?;
        let termination_log = root.join(TERMINATION_LOG);
        fs::write(&termination_log, "")?;
        fs::set_permissions(termination_log, fs::Permissions::from_mode(0o666))?;
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
            create_owned_dir(&root.join("run").join(name), QEMU_USER, 0o2777)?;
        }
        Ok(())
    }

    /// Why the pod has ended, as the kubelet reads it.
    pub fn termination_message(&self) -> Result<String> {
        Ok(fs::read_to_string(
            self.directory.path().join(TERMINATION_LOG),
        )?)
    }

    /// The hooks directory. The first call creates it, since only a pod with hooks has one.
    pub fn hooks_dir(&self) -> Result<PathBuf> {
        let directory = self.path("/run/kubevirt-hooks");
        if !directory.is_dir() {
            create_owned_dir(&directory, QEMU_USER, 0o2777)?;
        }
        Ok(directory)
    }

    /// Creates a directory that belongs to QEMU's user.
    pub fn create_qemu_dir(&self, in_pod: &str) -> Result<PathBuf> {
        let path = self.path(in_pod);
        create_owned_dir(&path, QEMU_USER, 0o2777)?;
        Ok(path)
    }
}

/// Creates a directory with exactly this mode, which belongs to `owner` and its group.
fn create_owned_dir(path: &Path, owner: LauncherUser, mode: u32) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("{}", path.display()))?;
    if is_root() {
        chown(path, Some(owner.id()), Some(owner.id()))?;
    }
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
