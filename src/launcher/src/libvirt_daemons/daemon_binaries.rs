//! Finds the daemons' binaries: virtqemud where libvirt is modular (KubeVirt's images), else Debian's libvirtd.

use std::path::{Path, PathBuf};

use super::error::DaemonError;

/// The programs that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binaries {
    /// virtqemud or libvirtd.
    pub hypervisor: PathBuf,
    /// virtlogd; without it QEMU's output goes to files, unrotated.
    pub logger: Option<PathBuf>,
    /// The emulator.
    pub qemu: PathBuf,
}

impl Binaries {
    /// Looks through the directories, in their order.
    pub(crate) fn find(path: &[PathBuf]) -> Result<Binaries, DaemonError> {
        let hypervisor =
            first(path, &["virtqemud", "libvirtd"]).ok_or_else(|| DaemonError::NoDaemon {
                searched: path.into(),
            })?;
        let program = format!("qemu-system-{}", std::env::consts::ARCH);
        let qemu = first(path, &["qemu-kvm", &program]).ok_or_else(|| DaemonError::NoQemu {
            program,
            searched: path.into(),
        })?;
        Ok(Binaries {
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

/// The first name that is anywhere: an earlier name beats an earlier directory.
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
