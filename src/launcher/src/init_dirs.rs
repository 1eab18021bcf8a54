//! Creates the directories that QEMU and virt-handler expect; the first step of start-up.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::paths::{Paths, QEMU_USER};

/// A directory or file could not be put in place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitDirsError {
    /// Creating it failed.
    #[error("creating {path}: {source}")]
    Create {
        /// What was to be created.
        path: PathBuf,
        /// Why it could not be.
        source: io::Error,
    },
    /// Its mode or owner could not be set.
    #[error("giving {path} to uid {QEMU_USER}: {source}; run as root or as uid {QEMU_USER}")]
    Give {
        /// What was to be given away.
        path: PathBuf,
        /// Why it could not be.
        source: io::Error,
    },
}

/// Below the private directory: images of config maps, secrets and similar volumes.
const DISK_DIRECTORIES: [&str; 7] = [
    "vm-disks",
    "config-map-disks",
    "sysprep-disks",
    "secret-disks",
    "downwardapi-disks",
    "service-account-disk",
    "downwardmetrics-channel",
];

/// Creates everything that must exist before hooks are collected. A root launcher also creates the
/// serial console's log, which virtlogd must find owned by QEMU's user.
pub(crate) fn initialize(paths: &Paths) -> Result<(), InitDirsError> {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    let made = create_all(paths);
    rustix::process::umask(umask);
    made?;
    if paths.non_root {
        return Ok(());
    }
    console_log(&paths.vmi_private().join("virt-serial0-log"))
}

/// Creates the directory of overlays; a step of its own, after hooks are collected.
pub(crate) fn initialize_disk_data(paths: &Paths) -> Result<(), InitDirsError> {
    create(&paths.disk_data(), 0o755)
}

fn create_all(paths: &Paths) -> Result<(), InitDirsError> {
    create(&paths.vmi_private(), 0o755)?;
    give(&paths.vmi_private(), None)?;
    create(&paths.ephemeral_disks.join("cloud-init-data"), 0o755)?;
    create(&paths.ephemeral_disks.join("ignition-data"), 0o755)?;
    create(&paths.container_disks, 0o750)?;
    create(&paths.hotplug_disks, 0o755)?;
    for name in DISK_DIRECTORIES {
        let path = paths.private.join(name);
        create(&path, 0o750)?;
        give(&path, Some(0o750))?;
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

/// Hands `path` to QEMU's user. Whoever is neither root nor that user keeps it: QEMU then runs as
/// the same user anyway.
fn give(path: &Path, mode: Option<u32>) -> Result<(), InitDirsError> {
    let result = match mode {
        Some(mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        None => Ok(()),
    };
    let me = rustix::process::geteuid().as_raw();
    let result = match result {
        Ok(()) if me == 0 => std::os::unix::fs::chown(path, Some(QEMU_USER), Some(QEMU_USER)),
        other => other,
    };
    result.map_err(|source| InitDirsError::Give {
        path: path.to_owned(),
        source,
    })
}

fn console_log(path: &Path) -> Result<(), InitDirsError> {
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|source| InitDirsError::Create {
            path: path.to_owned(),
            source,
        })?;
    give(path, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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
    fn error_contains_the_path_of_a_file_in_place_of_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::kubevirt(true, "1234").below(root.path());
        fs::create_dir_all(paths.private.parent().unwrap()).unwrap();
        fs::write(&paths.private, "in the way").unwrap();
        let error = initialize(&paths).unwrap_err().to_string();
        assert!(error.contains("kubevirt-private/1234"), "{error}");
    }
}
