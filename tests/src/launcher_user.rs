//! The user of the launcher's container: root, or KubeVirt's default.

/// The uid and gid of QEMU in a pod, which owns the disks.
pub const QEMU_UID: u32 = 107;

/// The user that the launcher runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherUser {
    /// uid 0, libvirt's system mode.
    Root,
    /// uid 107 with `--run-as-nonroot`: KubeVirt's default.
    Nonroot,
}

impl LauncherUser {
    /// The uid, which is also the gid.
    pub fn id(self) -> u32 {
        match self {
            LauncherUser::Root => 0,
            LauncherUser::Nonroot => QEMU_UID,
        }
    }
}
