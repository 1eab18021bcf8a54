//! The first step of start-up: the directories that QEMU and virt-handler expect.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::places::{Places, QEMU_USER};

/// A directory or file could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
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

/// Below the private directory: images made of config maps, secrets and their kin.
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
pub fn initialize(places: &Places) -> Result<(), DirectoryError> {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    let made = create_all(places);
    rustix::process::umask(umask);
    made?;
    if places.non_root {
        return Ok(());
    }
    console_log(&places.vmi_private().join("virt-serial0-log"))
}

/// Creates the directory of overlays; a step of its own, after hooks are collected.
pub fn initialize_disk_data(places: &Places) -> Result<(), DirectoryError> {
    create(&places.disk_data(), 0o755)
}

fn create_all(places: &Places) -> Result<(), DirectoryError> {
    create(&places.vmi_private(), 0o755)?;
    give(&places.vmi_private(), None)?;
    create(&places.ephemeral_disks.join("cloud-init-data"), 0o755)?;
    create(&places.ephemeral_disks.join("ignition-data"), 0o755)?;
    create(&places.container_disks, 0o750)?;
    create(&places.hotplug_disks, 0o755)?;
    for name in DISK_DIRECTORIES {
        let path = places.private.join(name);
        create(&path, 0o750)?;
        give(&path, Some(0o750))?;
    }
    Ok(())
}

fn create(path: &Path, mode: u32) -> Result<(), DirectoryError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(mode);
    builder
        .create(path)
        .map_err(|source| DirectoryError::Create {
            path: path.to_owned(),
            source,
        })
}

/// Hands `path` to QEMU's user. Whoever is neither root nor that user keeps it: QEMU then runs as
/// the same user anyway.
fn give(path: &Path, mode: Option<u32>) -> Result<(), DirectoryError> {
    let result = match mode {
        Some(mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        None => Ok(()),
    };
    let me = rustix::process::geteuid().as_raw();
    let result = match result {
        Ok(()) if me == 0 => std::os::unix::fs::chown(path, Some(QEMU_USER), Some(QEMU_USER)),
        other => other,
    };
    result.map_err(|source| DirectoryError::Give {
        path: path.to_owned(),
        source,
    })
}

fn console_log(path: &Path) -> Result<(), DirectoryError> {
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|source| DirectoryError::Create {
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
    fn everything_is_there_and_a_second_time_is_harmless() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::kubevirt(false, "1234").below(root.path());
        initialize(&places).unwrap();
        initialize(&places).unwrap();
        initialize_disk_data(&places).unwrap();
        for path in [
            places.vmi_private().join("virt-serial0-log"),
            places.ephemeral_disks.join("cloud-init-data"),
            places.private.join("config-map-disks"),
            places.disk_data(),
        ] {
            assert!(path.exists(), "{}", path.display());
        }
        let mode = fs::metadata(places.private.join("vm-disks"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o750);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::kubevirt(true, "1234").below(root.path());
        fs::create_dir_all(places.private.parent().unwrap()).unwrap();
        fs::write(&places.private, "in the way").unwrap();
        let error = initialize(&places).unwrap_err().to_string();
        assert!(error.contains("kubevirt-private/1234"), "{error}");
    }
}
