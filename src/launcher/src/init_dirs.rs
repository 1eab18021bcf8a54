//! Creates the directories that QEMU and virt-handler expect, at the launcher's start.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::paths::{Paths, QEMU_USER};
use crate::untrusted_file::open_without_links;

/// Why a directory or file could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitDirsError {
    /// Creating a directory or file failed.
    #[error("creating {path}: {source}")]
    Create {
        /// The directory or file.
        path: PathBuf,
        /// The file system's error.
        source: io::Error,
    },
    /// Setting a mode or owner failed.
    #[error("giving {path} to uid {QEMU_USER}: {source}; run as root or as uid {QEMU_USER}")]
    SetOwner {
        /// The directory or file.
        path: PathBuf,
        /// The file system's error.
        source: io::Error,
    },
}

/// Names of the directories, in the private directory, of images of config maps, secrets and similar volumes.
const DISK_DIRECTORIES: [&str; 7] = [
    "vm-disks",
    "config-map-disks",
    "sysprep-disks",
    "secret-disks",
    "downwardapi-disks",
    "service-account-disk",
    "downwardmetrics-channel",
];

/// Creates everything that must exist before hooks are collected. A launcher that runs as root also creates the log of
/// the serial console, which must belong to QEMU's user before virtlogd opens it.
pub(crate) fn initialize(paths: &Paths) -> Result<(), InitDirsError> {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    let created = create_all(paths);
    rustix::process::umask(umask);
    created?;
    if paths.non_root {
        return Ok(());
    }
    create_console_log(&paths.vmi_private().join("virt-serial0-log"))
}

/// Creates the directory of overlays. This comes after hooks were collected.
pub(crate) fn initialize_disk_data(paths: &Paths) -> Result<(), InitDirsError> {
    create(&paths.disk_data(), 0o755)
}

fn create_all(paths: &Paths) -> Result<(), InitDirsError> {
    create(&paths.vmi_private(), 0o755)?;
    give_to_qemu_user(&paths.vmi_private(), None)?;
    create(&paths.ephemeral_disks.join("cloud-init-data"), 0o755)?;
    create(&paths.ephemeral_disks.join("ignition-data"), 0o755)?;
    create(&paths.container_disks, 0o750)?;
    create(&paths.hotplug_disks, 0o755)?;
    for name in DISK_DIRECTORIES {
        let path = paths.private.join(name);
        create(&path, 0o750)?;
        give_to_qemu_user(&path, Some(0o750))?;
    }
    Ok(())
}

fn create(path: &Path, mode: u32) -> Result<(), InitDirsError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(mode);
    builder
        .create(path)
        .map_err(|source| InitDirsError::Create {
            path: path.to_owned(),
            source,
        })
}

/// Sets the mode of `path`, and as root its owner to QEMU's user. A launcher that is not root keeps the path, because
/// QEMU then runs as the same user. A link is an error: a QEMU of an earlier run may have put it there.
fn give_to_qemu_user(path: &Path, mode: Option<u32>) -> Result<(), InitDirsError> {
    set_mode_and_owner(path, mode).map_err(|source| InitDirsError::SetOwner {
        path: path.to_owned(),
        source,
    })
}

fn set_mode_and_owner(path: &Path, mode: Option<u32>) -> io::Result<()> {
    let file = open_without_links(path)?;
    if let Some(mode) = mode {
        file.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    match rustix::process::geteuid().is_root() {
        true => std::os::unix::fs::fchown(&file, Some(QEMU_USER), Some(QEMU_USER)),
        false => Ok(()),
    }
}

fn create_console_log(path: &Path) -> Result<(), InitDirsError> {
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(|source| InitDirsError::Create {
            path: path.to_owned(),
            source,
        })?;
    give_to_qemu_user(path, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialization_creates_all_directories_and_can_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::kubevirt(false, "1234").below(root.path());
        initialize(&paths).unwrap();
        initialize(&paths).unwrap();
        initialize_disk_data(&paths).unwrap();
        for path in [
            paths.vmi_private().join("virt-serial0-log"),
            paths.ephemeral_disks.join("cloud-init-data"),
            paths.private.join("config-map-disks"),
            paths.disk_data(),
        ] {
            assert!(path.exists(), "{}", path.display());
        }
        let mode = fs::metadata(paths.private.join("vm-disks"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o750);
    }

    #[test]
    fn link_in_place_of_a_directory_or_the_log_is_an_error_and_not_followed() {
        for link in ["secret-disks", "1234/virt-serial0-log"] {
            let root = tempfile::tempdir().unwrap();
            let paths = Paths::kubevirt(false, "1234").below(root.path());
            let target = root.path().join("target");
            match link {
                "secret-disks" => fs::create_dir(&target).unwrap(),
                _ => fs::write(&target, "").unwrap(),
            }
            fs::set_permissions(&target, fs::Permissions::from_mode(0o700)).unwrap();
            let link = paths.private.join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&target, &link).unwrap();
            let error = initialize(&paths).unwrap_err().to_string();
            assert!(error.contains(link.to_str().unwrap()), "{error}");
            let mode = fs::metadata(&target).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }

    #[test]
    fn error_contains_the_path_of_a_file_in_place_of_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::kubevirt(true, "1234").below(root.path());
        fs::create_dir_all(paths.private.parent().unwrap()).unwrap();
        fs::write(&paths.private, "in the way").unwrap();
        let error = initialize(&paths).unwrap_err().to_string();
        assert!(error.contains("kubevirt-private/1234"), "{error}");
    }
}
