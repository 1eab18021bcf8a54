//! The launcher's directories and sockets; no other module spells a path.
//!
//! They are KubeVirt's, for root and non-root (uid 107): virt-handler uses several of them from outside the pod.

use std::path::{Path, PathBuf};

/// KubeVirt's unprivileged user and group, `qemu` in its images. It owns every directory that QEMU
/// works in, also when the launcher runs as root.
pub(crate) const QEMU_USER: u32 = 107;

/// The directories of one launcher. All absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Shared with virt-handler; `--kubevirt-share-dir`.
    pub share: PathBuf,
    /// Private to the pod: `/var/run/kubevirt-private`.
    pub private: PathBuf,
    /// `--ephemeral-disk-dir`.
    pub ephemeral_disks: PathBuf,
    /// `--container-disk-dir`.
    pub container_disks: PathBuf,
    /// `--hotplug-disk-dir`.
    pub hotplug_disks: PathBuf,
    /// Images of emptyDisk volumes.
    pub empty_disks: PathBuf,
    /// libvirt's run-time directory, where the daemons' sockets appear.
    pub libvirt_run: PathBuf,
    /// Where QEMU's pid file appears.
    pub qemu_pids: PathBuf,
    /// Where QEMU's log appears.
    pub qemu_logs: PathBuf,
    /// libvirt's directory for what belongs to each QEMU.
    pub qemu_lib: PathBuf,
    /// The downward API's file about the pod's interfaces.
    pub network_info: PathBuf,
    /// The UID of the VirtualMachineInstance, which names its own private directory.
    pub uid: String,
    /// Whether the launcher runs as uid 107 instead of root.
    pub non_root: bool,
}

impl Paths {
    /// Where swtpm keeps the state of the TPM.
    pub(crate) fn tpm_state(&self) -> PathBuf {
        self.qemu_lib.with_file_name("swtpm")
    }

    /// KubeVirt's directories for a launcher run as root or not. The four directories that have flags
    /// get the flags' defaults.
    pub fn kubevirt(non_root: bool, uid: &str) -> Paths {
        let private = PathBuf::from("/var/run/kubevirt-private");
        let (qemu_pids, qemu_logs, qemu_lib) = if non_root {
            (
                "/run/libvirt/qemu/run".into(),
                private.join("libvirt/qemu/log"),
                private.join("libvirt/qemu/lib"),
            )
        } else {
            (
                "/run/libvirt/qemu".into(),
                "/var/log/libvirt/qemu".into(),
                "/var/lib/libvirt/qemu".into(),
            )
        };
        Paths {
            share: "/var/run/kubevirt".into(),
            ephemeral_disks: "/var/run/kubevirt-ephemeral-disks".into(),
            container_disks: "/var/run/kubevirt/container-disks".into(),
            hotplug_disks: "/var/run/kubevirt/hotplug-disks".into(),
            empty_disks: "/var/run/libvirt/empty-disks".into(),
            libvirt_run: "/var/run/libvirt".into(),
            private,
            qemu_pids,
            qemu_logs,
            qemu_lib,
            network_info: "/etc/podinfo/network-info".into(),
            uid: uid.to_owned(),
            non_root,
        }
    }

    /// The same tree below another root directory, for tests.
    pub fn below(mut self, root: &Path) -> Paths {
        for path in [
            &mut self.share,
            &mut self.private,
            &mut self.ephemeral_disks,
            &mut self.container_disks,
            &mut self.hotplug_disks,
            &mut self.empty_disks,
            &mut self.libvirt_run,
            &mut self.qemu_pids,
            &mut self.qemu_logs,
            &mut self.qemu_lib,
            &mut self.network_info,
        ] {
            *path = root.join(path.strip_prefix("/").unwrap_or(path));
        }
        self
    }

    /// The VMI's own private directory, with its serial console and VNC sockets.
    pub fn vmi_private(&self) -> PathBuf {
        self.private.join(&self.uid)
    }

    /// The command socket while the launcher starts up.
    pub fn init_socket(&self) -> PathBuf {
        self.share.join("sockets/launcher-init-sock")
    }

    /// The command socket once the launcher is ready.
    pub fn ready_socket(&self) -> PathBuf {
        self.share.join("sockets/launcher-sock")
    }

    /// Where QEMU serves a backup in pull mode.
    pub fn backup_socket(&self) -> PathBuf {
        self.share.join("sockets/backup-nbd-sock")
    }

    /// virt-handler's notification socket.
    pub fn notify_socket(&self) -> PathBuf {
        self.share.join("domain-notify-pipe.sock")
    }

    /// Where KubeVirt's device plugin serves an open `/dev/iommu`.
    pub fn iommufd_socket(&self) -> PathBuf {
        self.share.join("iommufd.sock")
    }

    /// Where the sockets of a migration are.
    pub fn migration_sockets(&self) -> PathBuf {
        self.share.join("migrationproxy")
    }

    /// Where libvirt's hook of a migration's target finds the launcher.
    pub fn migration_hook_socket(&self) -> PathBuf {
        self.share
            .join(kubevirt_api::migration_hook_protocol::SOCKET_NAME)
    }

    /// The file that tells KubeVirt that the VM has migrated away with the state of its TPM and EFI.
    pub fn migrated_marker(&self) -> PathBuf {
        self.private.join("backend-storage-meta/migrated")
    }

    /// QEMU's pid file for a domain.
    pub fn qemu_pid_file(&self, domain: &str) -> PathBuf {
        self.qemu_pids.join(format!("{domain}.pid"))
    }

    /// QEMU's log for a domain.
    pub fn qemu_log(&self, domain: &str) -> PathBuf {
        self.qemu_logs.join(format!("{domain}.log"))
    }

    /// Compiled hook modules, written by the launcher's own compile child only.
    pub fn hook_artifacts(&self) -> PathBuf {
        self.private.join("hook-artifacts")
    }

    /// Overlays of images that must not be written to.
    pub fn disk_data(&self) -> PathBuf {
        self.ephemeral_disks.join("disk-data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_non_root_paths_are_kubevirts() {
        let root = Paths::kubevirt(false, "1234");
        let user = Paths::kubevirt(true, "1234");
        assert_eq!(
            root.qemu_pid_file("ns_vm"),
            Path::new("/run/libvirt/qemu/ns_vm.pid")
        );
        assert_eq!(
            user.qemu_pid_file("ns_vm"),
            Path::new("/run/libvirt/qemu/run/ns_vm.pid")
        );
        assert_eq!(
            root.qemu_log("ns_vm"),
            Path::new("/var/log/libvirt/qemu/ns_vm.log")
        );
        assert_eq!(
            user.qemu_log("ns_vm"),
            Path::new("/var/run/kubevirt-private/libvirt/qemu/log/ns_vm.log")
        );
        assert_eq!(
            user.vmi_private(),
            Path::new("/var/run/kubevirt-private/1234")
        );
        assert_eq!(
            root.ready_socket(),
            Path::new("/var/run/kubevirt/sockets/launcher-sock")
        );
    }

    #[test]
    fn below_moves_all_paths() {
        let paths = Paths::kubevirt(true, "u").below(Path::new("/tmp/x"));
        assert_eq!(paths.share, Path::new("/tmp/x/var/run/kubevirt"));
        assert_eq!(paths.qemu_pids, Path::new("/tmp/x/run/libvirt/qemu/run"));
    }
}
