//! Files that appear under their name only when they are complete.
//!
//! Written beside as a [`Part`], handed to QEMU's user, renamed. A launcher that ends half-way leaves
//! a part that the next one removes, and never a truncated image in place.

mod part;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(crate) use part::Part;

use crate::places::QEMU_USER;

/// A file is not in place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A file system call failed.
    #[error("{what} {path}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file could not be given to QEMU's user.
    #[error("giving {path} to uid {QEMU_USER}: {source}")]
    Give {
        /// The file.
        path: PathBuf,
        /// Why it could not be.
        source: io::Error,
    },
}

/// What kind of file it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placing {
    /// Its mode.
    pub(crate) mode: u32,
    /// It is there for good: the next start takes what it finds, so it must have reached the disk.
    /// What every start writes anew need not.
    pub(crate) kept: bool,
}

/// Puts a file in place, over one that is there; its directory is made.
///
/// # Errors
/// [`PlaceError`], naming the file.
pub(crate) fn place(
    path: &Path,
    placing: Placing,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), PlaceError> {
    create_parent(path)?;
    let part = Part::of(path);
    let written = part
        .create(placing.mode)
        .and_then(|mut file| write(&mut file));
    written.map_err(failed("writing", path))?;
    part.settle(placing)
}

/// Gives a complete file its mode and its owner, and sees to it that it is kept.
fn complete(path: &Path, placing: Placing) -> Result<(), PlaceError> {
    fs::set_permissions(path, Permissions::from_mode(placing.mode))
        .map_err(failed("setting the mode of", path))?;
    give(path)?;
    if placing.kept {
        let synced = File::open(path).and_then(|file| file.sync_all());
        synced.map_err(failed("writing", path))?;
    }
    Ok(())
}

/// The directory of a file.
pub(crate) fn create_parent(path: &Path) -> Result<(), PlaceError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(failed("creating the directory", parent))
}

/// Hands a file to QEMU's user. Whoever is not root keeps it: QEMU then runs as the same user.
pub(crate) fn give(path: &Path) -> Result<(), PlaceError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let given = std::os::unix::fs::lchown(path, Some(QEMU_USER), Some(QEMU_USER));
    given.map_err(|source| PlaceError::Give {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn failed(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> PlaceError + use<> {
    let path = path.to_owned();
    move |source| PlaceError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    pub(super) const KEPT: Placing = Placing {
        mode: 0o640,
        kept: true,
    };

    #[test]
    fn a_file_is_whole_or_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/file");
        let write = |text: &'static str| {
            place(&path, KEPT, |file| file.write_all(text.as_bytes())).unwrap();
        };
        write("first and longer");
        write("second");
        let half = place(&path, KEPT, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no room"))
        });
        let error = half.unwrap_err().to_string();
        assert!(
            error.starts_with("writing /") && error.ends_with("below/file: no room"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
        if rustix::process::geteuid().is_root() {
            assert_eq!(metadata.uid(), QEMU_USER);
        }
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("file"),
            directory.path().join("other"),
        );
        fs::write(&other, "untouched").unwrap();
        symlink(&other, &path).unwrap();
        place(&path, KEPT, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"untouched");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
