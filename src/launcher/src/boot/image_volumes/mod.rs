//! Container disks and kernel boot images that Kubernetes mounts as image volumes (`--image-volume`).
//!
//! Everything else looks for images where virt-handler puts those of containers, so links there lead
//! to the files in the mounts. Names and layout are those of KubeVirt v1.9.

mod confined_path;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use kubevirt_api::vmi::Vmi;

use confined_path::resolve;

/// Where an image has its disk when it has more than that one file.
const DISK_DIRECTORY: &str = "disk";

/// Where images are mounted, and where they are looked for.
#[derive(Debug, Clone)]
pub struct ImageVolumes {
    /// One directory for each container disk: `disk_N`, by the volume's index in the VMI.
    pub disks: PathBuf,
    /// The image with kernel and initrd.
    pub kernel_boot: PathBuf,
    /// `--container-disk-dir`, where the links go.
    pub links: PathBuf,
}

/// An image volume has not what is looked for.
#[derive(Debug, thiserror::Error)]
pub enum ImageVolumeError {
    /// A file in the image, or the mount itself, cannot be reached.
    #[error("{what}: {path} in the image volume {mount}: {source}")]
    Resolve {
        /// `volume NAME`, `kernel boot`.
        what: String,
        /// The path in the image.
        path: PathBuf,
        /// Where the image is mounted.
        mount: PathBuf,
        /// Why it cannot be reached.
        source: io::Error,
    },
    /// No path was asked for, and there is more than one file to choose from.
    #[error(
        "volume {volume}: the image volume {mount} has neither one file alone nor one file alone in /disk; \
         name the disk's file in containerDisk.path"
    )]
    NoDisk {
        /// The volume.
        volume: String,
        /// Where the image is mounted.
        mount: PathBuf,
    },
    /// The link cannot be made.
    #[error("{what}: linking {path}: {source}")]
    Link {
        /// `volume NAME`, `kernel boot`.
        what: String,
        /// The link.
        path: PathBuf,
        /// Why it cannot be made.
        source: io::Error,
    },
}

impl ImageVolumes {
    /// KubeVirt's directories.
    pub fn kubevirt(links: &Path) -> ImageVolumes {
        ImageVolumes {
            disks: "/var/run/kubevirt-image-volume".into(),
            kernel_boot: "/var/run/kubevirt-kernel-boot".into(),
            links: links.to_owned(),
        }
    }

    /// Links all images of a VMI. Repeating it is harmless. Blocking.
    ///
    /// # Errors
    /// [`ImageVolumeError`], naming volume and path.
    pub fn link(&self, vmi: &Vmi) -> Result<(), ImageVolumeError> {
        for (index, volume) in vmi.spec.volumes.iter().enumerate() {
            if let Some(disk) = &volume.container_disk {
                let mount = self.disks.join(format!("disk_{index}"));
                let what = format!("volume {}", volume.name);
                let file = match disk.path.as_str() {
                    "" => only_file(&volume.name, &mount)?,
                    path => within(&what, &mount, Path::new(path))?,
                };
                let link = self.links.join(format!("disk_{index}.img"));
                make_link(&what, &file, &link)?;
            }
        }
        self.link_kernel_boot(vmi)
    }

    fn link_kernel_boot(&self, vmi: &Vmi) -> Result<(), ImageVolumeError> {
        let firmware = vmi.spec.domain.firmware.as_ref();
        let boot = firmware.and_then(|firmware| firmware.kernel_boot.as_ref());
        let Some(container) = boot.and_then(|boot| boot.container.as_ref()) else {
            return Ok(());
        };
        let what = "kernel boot";
        for artifact in [&container.kernel_path, &container.initrd_path] {
            let path = Path::new(artifact);
            let Some(name) = path.file_name() else {
                continue;
            };
            let file = within(what, &self.kernel_boot, path)?;
            make_link(what, &file, &self.links.join("kernel-boot").join(name))?;
        }
        Ok(())
    }
}

/// The one file at the top of an image, or in its `/disk`.
fn only_file(volume: &str, mount: &Path) -> Result<PathBuf, ImageVolumeError> {
    let what = format!("volume {volume}");
    if let Some(name) = only_name(mount).map_err(failed(&what, mount, "/"))? {
        return within(&what, mount, Path::new(&name));
    }
    let no_disk = || ImageVolumeError::NoDisk {
        volume: volume.to_owned(),
        mount: mount.to_owned(),
    };
    let directory = within(&what, mount, Path::new(DISK_DIRECTORY)).map_err(|_| no_disk())?;
    let name = only_name(&directory).ok().flatten().ok_or_else(no_disk)?;
    within(&what, mount, &Path::new(DISK_DIRECTORY).join(name))
}

/// The name of what a directory holds, if that is one thing and no directory.
fn only_name(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut entries = fs::read_dir(directory)?;
    let (Some(first), None) = (entries.next(), entries.next()) else {
        return Ok(None);
    };
    let first = first?;
    Ok((!first.file_type()?.is_dir()).then(|| first.file_name().into()))
}

fn within(what: &str, mount: &Path, path: &Path) -> Result<PathBuf, ImageVolumeError> {
    resolve(mount, path).map_err(failed(what, mount, path))
}

fn failed(
    what: &str,
    mount: &Path,
    path: impl AsRef<Path>,
) -> impl FnOnce(io::Error) -> ImageVolumeError {
    let (what, mount, path) = (what.to_owned(), mount.to_owned(), path.as_ref().to_owned());
    move |source| ImageVolumeError::Resolve {
        what,
        path,
        mount,
        source,
    }
}

/// A link that is there stays: it was made by an attempt before.
fn make_link(what: &str, file: &Path, link: &Path) -> Result<(), ImageVolumeError> {
    let failed = |source| ImageVolumeError::Link {
        what: what.to_owned(),
        path: link.to_owned(),
        source,
    };
    if let Some(directory) = link.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    match symlink(file, link) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
