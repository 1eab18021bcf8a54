//! Checks whether a precompiled artifact in the image may be run.
//!
//! An artifact may be run if it is as hard to change as the program that runs it. The file,
//! its directory and all parent directories must belong to root, and only root may write to them. The
//! file must be on the same mount as the program, so that it came with the image and not with a volume.

#[cfg(test)]
pub(super) mod tests;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// The program of this process.
const PROGRAM: &str = "/proc/self/exe";
const ROOT: u32 = 0;
/// The mode bits that let group or others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The sticky bit of a directory's mode.
const STICKY: u32 = 0o1000;

/// Why a precompiled artifact, or a directory of them, is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untrusted {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} belongs to uid {owner}, and not to root")]
    Owner { path: PathBuf, owner: u32 },
    #[error("others than root may write to {path} (mode {mode:04o})")]
    Writable { path: PathBuf, mode: u32 },
    #[error("{path} is not a regular file")]
    NoFile { path: PathBuf },
    #[error("{path} is not on the mount that this program is on, so it is not part of the image")]
    Mount { path: PathBuf },
    #[error("this kernel does not tell mounts apart (it is older than Linux 5.8)")]
    OldKernel,
}

/// The owner and the mount that a trusted file must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileTrust {
    /// An owner that is trusted besides root. It is root too, except in tests that do not run as root.
    owner: u32,
    mount: u64,
}

impl FileTrust {
    /// Trusts files of root on the mount of this program.
    pub(super) fn of_this_program() -> Result<Self, Untrusted> {
        let mount = mount_of_path(Path::new(PROGRAM), AtFlags::empty())?;
        Ok(Self { owner: ROOT, mount })
    }

    /// Checks a directory and all its parents. Returns the path with symbolic links resolved.
    pub(super) fn check_directory(&self, path: &Path) -> Result<PathBuf, Untrusted> {
        let path = fs::canonicalize(path).map_err(io_at(path))?;
        for directory in path.ancestors() {
            let metadata = fs::symlink_metadata(directory).map_err(io_at(directory))?;
            // In a sticky parent directory, only root can remove a directory of root.
            let is_sticky_parent = directory != path && metadata.mode() & STICKY != 0;
            self.check_owner(directory, &metadata)?;
            if !is_sticky_parent {
                check_write_permissions(directory, &metadata)?;
            }
        }
        Ok(path)
    }

    /// Checks an open file in a trusted directory. Errors name the file `path`.
    pub(super) fn check_file(&self, file: &File, path: &Path) -> Result<(), Untrusted> {
        let metadata = file.metadata().map_err(io_at(path))?;
        if !metadata.is_file() {
            return Err(Untrusted::NoFile { path: path.into() });
        }
        self.check_owner(path, &metadata)?;
        check_write_permissions(path, &metadata)?;
        if mount_of_file(file, path)? != self.mount {
            return Err(Untrusted::Mount { path: path.into() });
        }
        Ok(())
    }

    fn check_owner(&self, path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
        let owner = metadata.uid();
        if owner == ROOT || owner == self.owner {
            return Ok(());
        }
        Err(Untrusted::Owner {
            path: path.into(),
            owner,
        })
    }
}

/// Checks that only the owner may write. Access control lists appear in the group bits of the mode.
fn check_write_permissions(path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
    let mode = metadata.mode() & 0o7777;
    if mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(Untrusted::Writable {
        path: path.into(),
        mode,
    })
}

fn mount_of_path(path: &Path, flags: AtFlags) -> Result<u64, Untrusted> {
    mount_id(statx(CWD, path, flags, StatxFlags::MNT_ID).map_err(io_at(path))?)
}

fn mount_of_file(file: &File, path: &Path) -> Result<u64, Untrusted> {
    mount_id(statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(io_at(path))?)
}

fn mount_id(status: rustix::fs::Statx) -> Result<u64, Untrusted> {
    if status.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return Err(Untrusted::OldKernel);
    }
    Ok(status.stx_mnt_id)
}

fn io_at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Untrusted {
    move |error| Untrusted::Io {
        path: path.into(),
        source: error.into(),
    }
}
