//! Files that appear under their name only when they are complete.
//!
//! A file is written as a [`PendingFile`] in the target's directory, given to QEMU's user and renamed. A launcher that
//! ends before the rename leaves a pending file, which a later launcher removes, and never a truncated file under the
//! target's name.

mod pending_file;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(crate) use pending_file::{PendingFile, remove_stale};

use crate::paths::QEMU_USER;
use crate::untrusted_file::open_without_links;

/// A file could not be written, or its mode or owner could not be set.
#[derive(Debug, thiserror::Error)]
pub enum AtomicFileError {
    /// A file system call failed.
    #[error("{what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The owner could not be changed to QEMU's user.
    #[error("giving {path} to uid {QEMU_USER}: {source}")]
    Chown {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}

/// The mode and durability of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileAttrs {
    /// The permission bits.
    pub(crate) mode: u32,
    /// Whether the file is synced to disk before the rename. This is needed for a file that a later start uses, and not
    /// for a file that every start replaces.
    pub(crate) durable: bool,
}

/// Writes a file, and replaces an existing one; creates its directory.
///
/// # Errors
/// [`AtomicFileError`], naming the file.
pub(crate) fn write(
    path: &Path,
    attrs: FileAttrs,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), AtomicFileError> {
    create_parent(path)?;
    let pending = PendingFile::new(path);
    let written = pending
        .create(attrs.mode)
        .and_then(|mut file| write(&mut file));
    written.map_err(io_error("writing", path))?;
    pending.commit(attrs)
}

/// Sets mode and owner of a complete file, and syncs it if it is to be durable. A link in place of the file is an error:
/// whoever can write to a volume must not choose the file that a launcher of root changes.
fn set_attrs(path: &Path, attrs: FileAttrs) -> Result<(), AtomicFileError> {
    let setting = "setting the mode of";
    let file = open_without_links(path).map_err(io_error(setting, path))?;
    file.set_permissions(Permissions::from_mode(attrs.mode))
        .map_err(io_error(setting, path))?;
    chown_file_to_qemu(&file, path)?;
    if attrs.durable {
        file.sync_all().map_err(io_error("writing", path))?;
    }
    Ok(())
}

/// Creates the directory of a file.
pub(crate) fn create_parent(path: &Path) -> Result<(), AtomicFileError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(io_error("creating the directory", parent))
}

/// Makes QEMU's user the owner of a file. Does nothing unless the launcher is root: otherwise it runs as QEMU's user.
pub(crate) fn chown_to_qemu(path: &Path) -> Result<(), AtomicFileError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let changed = std::os::unix::fs::lchown(path, Some(QEMU_USER), Some(QEMU_USER));
    changed.map_err(|source| AtomicFileError::Chown {
        path: path.to_owned(),
        source,
    })
}

/// As [`chown_to_qemu`], for an open file or directory.
pub(crate) fn chown_file_to_qemu(file: &File, path: &Path) -> Result<(), AtomicFileError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let changed = std::os::unix::fs::fchown(file, Some(QEMU_USER), Some(QEMU_USER));
    changed.map_err(|source| AtomicFileError::Chown {
        path: path.to_owned(),
        source,
    })
}

/// Makes the error of a file system call.
pub(crate) fn io_error(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> AtomicFileError + use<> {
    let path = path.to_owned();
    move |source| AtomicFileError::Io { what, path, source }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// The user who owns a file of this process after [`chown_to_qemu`].
    pub(crate) fn expected_owner() -> u32 {
        match rustix::process::geteuid() {
            root if root.is_root() => QEMU_USER,
            user => user.as_raw(),
        }
    }

    pub(super) const DURABLE: FileAttrs = FileAttrs {
        mode: 0o640,
        durable: true,
    };

    #[test]
    fn failed_write_leaves_the_old_file_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/file");
        let replace = |text: &'static str| {
            write(&path, DURABLE, |file| file.write_all(text.as_bytes())).unwrap();
        };
        replace("first and longer");
        replace("second");
        let half = write(&path, DURABLE, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        let error = half.unwrap_err().to_string();
        assert!(
            error.starts_with("writing /") && error.ends_with("below/file: disk full"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
        assert_eq!(metadata.uid(), expected_owner());
    }

    /// The longest name that a file can have in Linux, and names whose pending files differ only at their end.
    #[test]
    fn file_with_the_longest_name_is_written() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["n".repeat(255), "n".repeat(254), "ü".repeat(127)] {
            let path = directory.path().join(&name);
            write(&path, DURABLE, |file| file.write_all(name.as_bytes())).unwrap();
            assert_eq!(fs::read(&path).unwrap(), name.as_bytes());
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
        let too_long = directory.path().join("n".repeat(256));
        let error = write(&too_long, DURABLE, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("File name too long"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[test]
    fn mode_and_owner_are_not_set_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("file"),
            directory.path().join("other"),
        );
        fs::write(&other, "untouched").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        let before = fs::metadata(&other).unwrap();
        let error = write(&path, DURABLE, |_| {
            // Somebody who can write to the directory replaces the pending file.
            let pending = fs::read_dir(directory.path()).unwrap().find_map(|entry| {
                let path = entry.unwrap().path();
                path.to_str().unwrap().ends_with(".part").then_some(path)
            });
            let pending = pending.unwrap();
            fs::remove_file(&pending)?;
            symlink(&other, &pending)
        });
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("setting the mode of /"), "{error}");
        let after = fs::metadata(&other).unwrap();
        assert_eq!(
            (after.permissions(), after.uid()),
            (before.permissions(), before.uid())
        );
        assert!(!path.exists());
    }

    #[test]
    fn symlink_at_the_target_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("file"),
            directory.path().join("other"),
        );
        fs::write(&other, "untouched").unwrap();
        symlink(&other, &path).unwrap();
        write(&path, DURABLE, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"untouched");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
