//! Finds the programs of the daemons and of QEMU: virtqemud where libvirt is modular (KubeVirt's images), otherwise
//! Debian's libvirtd.

use std::path::{Path, PathBuf};

use super::error::DaemonError;

/// The paths of the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DaemonBinaries {
    /// virtqemud or libvirtd.
    pub hypervisor: PathBuf,
    /// virtlogd; without it QEMU writes to files that are not rotated.
    pub logger: Option<PathBuf>,
    /// QEMU.
    pub qemu: PathBuf,
}

impl DaemonBinaries {
    /// Searches the directories, in their order.
    pub(crate) fn find(path: &[PathBuf]) -> Result<DaemonBinaries, DaemonError> {
        let hypervisor =
            first(path, &["virtqemud", "libvirtd"]).ok_or_else(|| DaemonError::NoDaemon {
                searched: path.into(),
            })?;
        let program = format!("qemu-system-{}", std::env::consts::ARCH);
        let qemu = first(path, &["qemu-kvm", &program]).ok_or_else(|| DaemonError::NoQemu {
            program,
            searched: path.into(),
        })?;
        Ok(DaemonBinaries {
            hypervisor,
            logger: first(path, &["virtlogd"]),
            qemu,
        })
    }

    /// The name of the hypervisor daemon's socket in libvirt's run-time directory.
    pub(crate) fn socket_name(&self) -> &'static str {
        if self.hypervisor.ends_with("virtqemud") {
            "virtqemud-sock"
        } else {
            "libvirt-sock"
        }
    }
}

/// The first of these names that exists in any directory. An earlier name wins over an earlier directory.
fn first(path: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| {
        path.iter()
            .map(|directory| directory.join(name))
            .find(|program| is_program(program))
    })
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}
