//! The paths of the launcher's directories and sockets, which no other module defines.
//!
//! The paths are those of KubeVirt's launcher, as root and as non-root (uid 107), because virt-handler uses several of
//! them from outside the pod.

use std::path::{Path, PathBuf};

/// The ID of KubeVirt's unprivileged user and group, `qemu` in its images. The user owns every directory that QEMU
/// writes to, also if the launcher runs as root.
pub(crate) const QEMU_USER: u32 = 107;

/// The directories of one launcher. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The directory that is shared with virt-handler (`--kubevirt-share-dir`).
    pub share: PathBuf,
    /// The pod's private directory (`/var/run/kubevirt-private`).
    pub private: PathBuf,
    /// The directory of ephemeral disks (`--ephemeral-disk-dir`).
    pub ephemeral_disks: PathBuf,
    /// The directory of container disks (`--container-disk-dir`).
    pub container_disks: PathBuf,
    /// The directory of hotplugged disks (`--hotplug-disk-dir`).
    pub hotplug_disks: PathBuf,
    /// The directory of images of emptyDisk volumes.
    pub empty_disks: PathBuf,
    /// libvirt's run-time directory, which contains the sockets of its daemons.
    pub libvirt_run: PathBuf,
    /// The directory of QEMU's PID file.
    pub qemu_pids: PathBuf,
    /// The directory of QEMU's log.
    pub qemu_logs: PathBuf,
    /// libvirt's directory with a subdirectory for each QEMU.
    pub qemu_lib: PathBuf,
    /// The file of the downward API about the pod's interfaces.
    pub network_info: PathBuf,
    /// The UID of the VirtualMachineInstance, after which its private directory is named.
    pub uid: String,
    /// Whether the launcher runs as uid 107 instead of root.
    pub non_root: bool,
}

impl Paths {
    /// The directory of swtpm's state of the TPM.
    pub(crate) fn tpm_state(&self) -> PathBuf {
        self.qemu_lib.with_file_name("swtpm")
    }

    /// KubeVirt's directories, for a launcher as root or as non-root. The four directories that have flags are the
    /// flags' defaults.
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

    /// The VMI's private directory, with the sockets of its serial console and VNC.
    pub fn vmi_private(&self) -> PathBuf {
        self.private.join(&self.uid)
    }

    /// The command socket until the launcher is ready.
    pub fn init_socket(&self) -> PathBuf {
        self.share.join("sockets/launcher-init-sock")
    }

    /// The command socket of a launcher that is ready.
    pub fn ready_socket(&self) -> PathBuf {
        self.share.join("sockets/launcher-sock")
    }

    /// The socket on which QEMU serves a backup in pull mode.
    pub fn backup_socket(&self) -> PathBuf {
        self.share.join("sockets/backup-nbd-sock")
    }

    /// virt-handler's notification socket.
    pub fn notify_socket(&self) -> PathBuf {
        self.share.join("domain-notify-pipe.sock")
    }

    /// The socket on which KubeVirt's device plugin serves an open `/dev/iommu`.
    pub fn iommufd_socket(&self) -> PathBuf {
        self.share.join("iommufd.sock")
    }

    /// The directory of a migration's sockets.
    pub fn migration_sockets(&self) -> PathBuf {
        self.share.join("migrationproxy")
    }

    /// The socket on which a migration's target serves libvirt's migration hook.
    pub fn migration_hook_socket(&self) -> PathBuf {
        self.share
            .join(kubevirt_api::libvirt_migration_hook_protocol::SOCKET_NAME)
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

    /// The directory of compiled hook modules, which only the launcher's own compile child writes.
    pub fn hook_artifacts(&self) -> PathBuf {
        self.private.join("hook-artifacts")
    }

    /// The directory of overlays of images that must not be written to.
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
