//! Who could have written a file of machine code that lies in the image.
//!
//! The rule: an artifact is run when it is as hard to change as the program that runs it. It, its
//! directory and everything above belong to root and are for root alone to write; and it is on the
//! very mount that the program is on, so that it came with the image and no volume lies over it.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

const PROGRAM: &str = "/proc/self/exe";
const ROOT: u32 = 0;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why a baked artifact, or a directory of them, is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Doubt {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} belongs to uid {owner}, and not to root")]
    Owner { path: PathBuf, owner: u32 },
    #[error("others than root may write to {path} (mode {mode:04o})")]
    Writable { path: PathBuf, mode: u32 },
    #[error("{path} is no regular file")]
    NoFile { path: PathBuf },
    #[error("{path} is not on the mount that this program is on, so it is no part of the image")]
    Mount { path: PathBuf },
    #[error("this kernel does not tell mounts apart (it is older than Linux 5.8)")]
    OldKernel,
}

/// What makes a place trusted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trust {
    /// Whose files are trusted beside root's: nobody's, but in a test that is not root.
    owner: u32,
    mount: u64,
}

impl Trust {
    /// As this program itself is trusted.
    pub(super) fn of_this_program() -> Result<Self, Doubt> {
        let mount = mount(Path::new(PROGRAM), AtFlags::empty())?;
        Ok(Self { owner: ROOT, mount })
    }

    /// A directory, links in its path followed; gives where it really is.
    pub(super) fn directory(&self, path: &Path) -> Result<PathBuf, Doubt> {
        let path = fs::canonicalize(path).map_err(io_at(path))?;
        for above in path.ancestors() {
            let metadata = fs::symlink_metadata(above).map_err(io_at(above))?;
            // What root puts into a sticky directory, only root takes out of it again.
            let may_be_sticky = above != path && metadata.mode() & STICKY != 0;
            self.owner(above, &metadata)?;
            if !may_be_sticky {
                read_only(above, &metadata)?;
            }
        }
        Ok(path)
    }

    /// An open file of such a directory; `path` is what errors call it.
    pub(super) fn file(&self, file: &File, path: &Path) -> Result<(), Doubt> {
        let metadata = file.metadata().map_err(io_at(path))?;
        if !metadata.is_file() {
            return Err(Doubt::NoFile { path: path.into() });
        }
        self.owner(path, &metadata)?;
        read_only(path, &metadata)?;
        if mount_of(file, path)? != self.mount {
            return Err(Doubt::Mount { path: path.into() });
        }
        Ok(())
    }

    fn owner(&self, path: &Path, metadata: &Metadata) -> Result<(), Doubt> {
        let owner = metadata.uid();
        if owner == ROOT || owner == self.owner {
            return Ok(());
        }
        Err(Doubt::Owner {
            path: path.into(),
            owner,
        })
    }
}

/// Access lists show as the group's bits.
fn read_only(path: &Path, metadata: &Metadata) -> Result<(), Doubt> {
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(Doubt::Writable {
        path: path.into(),
        mode,
    })
}

fn mount(path: &Path, flags: AtFlags) -> Result<u64, Doubt> {
    known(statx(CWD, path, flags, StatxFlags::MNT_ID).map_err(io_at(path))?)
}

fn mount_of(file: &File, path: &Path) -> Result<u64, Doubt> {
    known(statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(io_at(path))?)
}

fn known(status: rustix::fs::Statx) -> Result<u64, Doubt> {
    if status.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return Err(Doubt::OldKernel);
    }
    Ok(status.stx_mnt_id)
}

fn io_at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Doubt {
    move |error| Doubt::Io {
        path: path.into(),
        source: error.into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Whoever runs the tests stands in for root, and the place's mount for the program's.
    pub(in crate::wasm) fn trust_in(place: &Path) -> Trust {
        Trust {
            owner: rustix::process::geteuid().as_raw(),
            mount: mount(place, AtFlags::empty()).unwrap(),
        }
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn nobody_else_may_write_to_it_or_to_what_is_above() {
        let place = tempfile::tempdir().unwrap();
        let trust = trust_in(place.path());
        let inner = place.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let link = place.path().join("link");
        symlink(&inner, &link).unwrap();
        let told = |path: &Path| trust.directory(path).map_err(|doubt| doubt.to_string());
        assert_eq!(told(&link), Ok(inner.canonicalize().unwrap()));
        for (path, mode) in [
            (&inner, 0o775),
            (&inner, 0o1777),
            (&place.path().join("a"), 0o757),
        ] {
            chmod(path, mode);
            let doubt = told(&inner).unwrap_err();
            assert!(doubt.contains(&format!("mode {mode:04o}")), "{doubt}");
            chmod(path, 0o755);
        }
        chmod(&place.path().join("a"), 0o1777);
        assert!(told(&inner).is_ok());
        assert!(
            told(&place.path().join("none"))
                .unwrap_err()
                .contains("none")
        );
    }

    #[test]
    fn files_are_looked_at_as_they_are_open() {
        let place = tempfile::tempdir().unwrap();
        let trust = trust_in(place.path());
        let path = place.path().join("x");
        fs::write(&path, "x").unwrap();
        chmod(&path, 0o644);
        let file = File::open(&path).unwrap();
        let told = |trust: Trust| trust.file(&file, &path).map_err(|doubt| doubt.to_string());
        assert_eq!(told(trust), Ok(()));
        let elsewhere = Trust {
            mount: trust.mount.wrapping_add(1),
            ..trust
        };
        assert!(
            told(elsewhere)
                .unwrap_err()
                .contains("no part of the image")
        );
        chmod(&path, 0o664);
        assert!(told(trust).unwrap_err().contains("others than root"));
        let directory = File::open(place.path()).unwrap();
        assert!(matches!(
            trust.file(&directory, place.path()),
            Err(Doubt::NoFile { .. })
        ));
    }

    #[test]
    fn strangers_files_are_not_trusted() {
        let place = tempfile::tempdir().unwrap();
        let trust = trust_in(place.path());
        let stranger = Trust {
            owner: ROOT,
            ..trust
        };
        let mine = fs::symlink_metadata(place.path()).unwrap();
        // Run by root, the tests have no stranger's file; the rule is the same with another root.
        let told = stranger.owner(place.path(), &mine);
        assert_eq!(told.is_ok(), mine.uid() == ROOT);
    }

    #[test]
    fn this_program_is_on_a_mount() {
        assert_eq!(Trust::of_this_program().unwrap().owner, ROOT);
    }
}
