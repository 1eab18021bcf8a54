//! Links container disks and kernel boot images that Kubernetes mounts as image volumes (`--image-volume`).
//!
//! Without image volumes, virt-handler puts the images into `--container-disk-dir`. Links in that directory lead to the
//! files in the mounts, so that the rest of the launcher need not distinguish the two. Names and layout are KubeVirt's.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use domain::kubevirt_version::Behaviour;
use kubevirt_api::vmi::Vmi;

/// The directory of an image in which the disk is alone, unless the VMI names its path.
const DISK_DIRECTORY: &str = "disk";

/// The directories of mounted images and of the links to them.
#[derive(Debug, Clone)]
pub struct ImageVolumes {
    /// The directory with one mount for each container disk: `disk_N`, N being the volume's index in the VMI.
    pub disks: PathBuf,
    /// The mount of the image with kernel and initrd.
    pub kernel_boot: PathBuf,
    /// The directory of the links: `--container-disk-dir`.
    pub links: PathBuf,
    /// Whether a disk may be alone at its image's root, instead of in `/disk`.
    pub finds_disk_at_root: bool,
}

/// An image in a volume cannot be linked.
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
        /// The error of the file system.
        source: io::Error,
    },
    /// The VMI names no path, and the image has no single file.
    #[error(
        "volume {volume}: the image volume {mount} does not have one file alone {places}; name the disk's file in \
         containerDisk.path"
    )]
    NoDisk {
        /// The volume.
        volume: String,
        /// Where the disk was looked for.
        places: &'static str,
        /// Where the image is mounted.
        mount: PathBuf,
    },
    /// The link could not be made.
    #[error("{what}: linking {path}: {source}")]
    Link {
        /// `volume NAME`, `kernel boot`.
        what: String,
        /// The link.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}

impl ImageVolumes {
    /// KubeVirt's directories and rules; `links` is `--container-disk-dir`.
    pub fn kubevirt(links: &Path, behaviour: &Behaviour) -> ImageVolumes {
        ImageVolumes {
            disks: "/var/run/kubevirt-image-volume".into(),
            kernel_boot: "/var/run/kubevirt-kernel-boot".into(),
            links: links.to_owned(),
            finds_disk_at_root: behaviour.finds_disk_at_image_root,
        }
    }

    /// Links all images of a VMI. May be repeated. Blocking.
    ///
    /// # Errors
    /// [`ImageVolumeError`], naming volume and path.
    pub fn link(&self, vmi: &Vmi) -> Result<(), ImageVolumeError> {
        for (index, volume) in vmi.spec.volumes.iter().enumerate() {
            if let Some(disk) = &volume.container_disk {
                let mount = self.disks.join(format!("disk_{index}"));
                let what = format!("volume {}", volume.name);
                let file = match disk.path.as_str() {
                    "" => self.only_file(&volume.name, &mount)?,
                    path => resolve_in_mount(&what, &mount, Path::new(path))?,
                };
                let link = self.links.join(format!("disk_{index}.img"));
                make_link(&what, &file, &link)?;
            }
        }
        self.link_kernel_boot(vmi)
    }

    /// The only file at an image's root or in its `/disk`.
    fn only_file(&self, volume: &str, mount: &Path) -> Result<PathBuf, ImageVolumeError> {
        let what = format!("volume {volume}");
        let at_root = only_name(mount).map_err(resolve_error(&what, mount, "/"))?;
        if let Some(name) = at_root.filter(|_| self.finds_disk_at_root) {
            return resolve_in_mount(&what, mount, &name);
        }
        let no_disk = || ImageVolumeError::NoDisk {
            volume: volume.to_owned(),
            places: match self.finds_disk_at_root {
                true => "at its root or in /disk",
                false => "in /disk",
            },
            mount: mount.to_owned(),
        };
        let directory =
            resolve_in_mount(&what, mount, Path::new(DISK_DIRECTORY)).map_err(|_| no_disk())?;
        let name = only_name(&directory).ok().flatten().ok_or_else(no_disk)?;
        resolve_in_mount(&what, mount, &Path::new(DISK_DIRECTORY).join(name))
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
            let file = resolve_in_mount(what, &self.kernel_boot, path)?;
            make_link(what, &file, &self.links.join("kernel-boot").join(name))?;
        }
        Ok(())
    }
}

/// The name of the only entry in a directory, if there is exactly one and it is not a directory.
fn only_name(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut entries = fs::read_dir(directory)?;
    let (Some(first), None) = (entries.next(), entries.next()) else {
        return Ok(None);
    };
    let first = first?;
    Ok((!first.file_type()?.is_dir()).then(|| first.file_name().into()))
}

fn resolve_in_mount(what: &str, mount: &Path, path: &Path) -> Result<PathBuf, ImageVolumeError> {
    resolve(mount, path).map_err(resolve_error(what, mount, path))
}

fn resolve_error(
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

/// Makes a link. An existing link is kept: an earlier attempt made it.
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

// Resolves paths inside an untrusted file tree. Symlinks are resolved as if the tree were the root directory, so that
// none leads out of it.

/// Maximum number of symlinks in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The file or directory at `path` in the tree below `root`, as a path without symlinks.
fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut remaining: VecDeque<Step> = steps(path).collect();
    let mut resolved: Vec<OsString> = Vec::new();
    let mut links = 0;
    while let Some(step) = remaining.pop_front() {
        let name = match step {
            Step::Root => {
                resolved.clear();
                continue;
            }
            Step::Parent => {
                resolved.pop();
                continue;
            }
            Step::Child(name) => name,
        };
        resolved.push(name);
        let current = below(root, &resolved);
        if !fs::symlink_metadata(&current)?.is_symlink() {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::other("too many links"));
        }
        resolved.pop();
        for step in steps(&fs::read_link(current)?).rev() {
            remaining.push_front(step);
        }
    }
    let current = below(root, &resolved);
    fs::symlink_metadata(&current)?;
    Ok(current)
}

/// One component of a path.
enum Step {
    Root,
    Parent,
    Child(OsString),
}

fn steps(path: &Path) -> std::vec::IntoIter<Step> {
    let step = |component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Parent),
        Component::Normal(name) => Some(Step::Child(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    let steps: Vec<Step> = path.components().filter_map(step).collect();
    steps.into_iter()
}

fn below(root: &Path, resolved: &[OsString]) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(resolved);
    path
}

#[cfg(test)]
mod tests;
