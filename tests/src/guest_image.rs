//! The kernel, initramfs and disk of the small guest that `scripts/build-guest-image` builds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::binaries::{target_dir, workspace};

/// The prefix of the guest's report lines on its serial console.
pub const REPORT_PREFIX: &str = "GUEST ";

/// The first bytes of the disk that [`Guest::install_container_disk`] puts into a pod, as the guest prints them.
pub const CONTAINER_DISK_MARK: &str = "KUBEVIRT-CONTAINER-DISK";

/// The guest's files on this machine.
#[derive(Clone, Debug)]
pub struct Guest {
    directory: PathBuf,
}

impl Guest {
    /// Builds the guest's files if they are missing, which takes some seconds.
    pub fn prepare() -> Result<Guest> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let directory = BUILT
            .get_or_init(|| build().map_err(|error| format!("{error:#}")))
            .clone();
        Ok(Guest {
            directory: directory.map_err(anyhow::Error::msg)?,
        })
    }

    /// Puts kernel and initramfs where a kernel boot container's files appear in the launcher.
    ///
    /// The files are copied, because libvirt changes their owner to QEMU's user and does not restore it.
    pub fn install_kernel_boot(&self, container_disks: &Path) -> Result<()> {
        let directory = container_disks.join("kernel-boot");
        fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
        self.copy("vmlinuz", &directory.join("vmlinuz"))?;
        self.copy("initrd", &directory.join("initrd"))
    }

    /// Puts a small qcow2 image where the container disk of the VMI's volume number `index` appears.
    pub fn install_container_disk(&self, container_disks: &Path, index: usize) -> Result<()> {
        self.copy(
            "disk.img",
            &container_disks.join(format!("disk_{index}.img")),
        )
    }

    fn copy(&self, name: &str, to: &Path) -> Result<()> {
        let from = self.directory.join(name);
        fs::copy(&from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
        Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o644))?)
    }
}

fn build() -> Result<PathBuf> {
    let script = workspace().join("scripts/build-guest-image");
    let output = Command::new(&script)
        .env("CARGO_TARGET_DIR", target_dir())
        .output()
        .with_context(|| format!("{}", script.display()))?;
    if !output.status.success() {
        bail!(
            "{}: {}\n{}",
            script.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
