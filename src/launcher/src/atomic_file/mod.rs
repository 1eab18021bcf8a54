//! Files that appear under their name only when they are complete.
//!
//! A file is written as a [`PendingFile`] in the target's directory, given to QEMU's user and renamed. A launcher that
//! ends before the rename leaves a pending file, which the next launcher removes, and never a truncated file under the
//! target's name.

mod pending_file;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(crate) use pending_file::PendingFile;

use crate::paths::QEMU_USER;

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

/// Sets mode and owner of a complete file, and syncs it if it is to be durable.
fn set_attrs(path: &Path, attrs: FileAttrs) -> Result<(), AtomicFileError> {
    fs::set_permissions(path, Permissions::from_mode(attrs.mode))
        .map_err(io_error("setting the mode of", path))?;
    chown_to_qemu(path)?;
    if attrs.durable {
        let synced = File::open(path).and_then(|file| file.sync_all());
        synced.map_err(io_error("writing", path))?;
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
    #![allow(clippy::unwrap_used)]
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
