//! Whether a file of machine code in the image may be run.
//!
//! The rule: an artifact is run if it is as hard to change as the program that runs it. The file,
//! its directory and all parent directories belong to root and only root may write to them; and the
//! file is on the same mount as the program, so it came with the image and not with a volume.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

const PROGRAM: &str = "/proc/self/exe";
const ROOT: u32 = 0;
const OTHERS_WRITE: u32 = 0o022;
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
    /// An owner that is trusted beside root. It is root, except in tests that do not run as root.
    owner: u32,
    mount: u64,
}

impl FileTrust {
    /// Trusts files that are as hard to change as this program.
    pub(super) fn of_this_program() -> Result<Self, Untrusted> {
        let mount = mount(Path::new(PROGRAM), AtFlags::empty())?;
        Ok(Self { owner: ROOT, mount })
    }

    /// Checks a directory and all its parents. Returns the path with symbolic links resolved.
    pub(super) fn directory(&self, path: &Path) -> Result<PathBuf, Untrusted> {
        let path = fs::canonicalize(path).map_err(io_at(path))?;
        for above in path.ancestors() {
            let metadata = fs::symlink_metadata(above).map_err(io_at(above))?;
            // In a sticky directory, only root removes what root put there.
            let may_be_sticky = above != path && metadata.mode() & STICKY != 0;
            self.check_owner(above, &metadata)?;
            if !may_be_sticky {
                check_write_permissions(above, &metadata)?;
            }
        }
        Ok(path)
    }

    /// Checks an open file of a trusted directory. Errors name it `path`.
    pub(super) fn file(&self, file: &File, path: &Path) -> Result<(), Untrusted> {
        let metadata = file.metadata().map_err(io_at(path))?;
        if !metadata.is_file() {
            return Err(Untrusted::NoFile { path: path.into() });
        }
        self.check_owner(path, &metadata)?;
        check_write_permissions(path, &metadata)?;
        if mount_of(file, path)? != self.mount {
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

/// Access control lists appear in the group bits of the mode.
fn check_write_permissions(path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(Untrusted::Writable {
        path: path.into(),
        mode,
    })
}

fn mount(path: &Path, flags: AtFlags) -> Result<u64, Untrusted> {
    mount_id(statx(CWD, path, flags, StatxFlags::MNT_ID).map_err(io_at(path))?)
}

fn mount_of(file: &File, path: &Path) -> Result<u64, Untrusted> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// The user who runs the tests stands in for root, and the mount of `temp_dir` for the program's.
    pub(in crate::wasm) fn trust_in(temp_dir: &Path) -> FileTrust {
        FileTrust {
            owner: rustix::process::geteuid().as_raw(),
            mount: mount(temp_dir, AtFlags::empty()).unwrap(),
        }
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_write_is_not_trusted_nor_its_children() {
        let temp_dir = tempfile::tempdir().unwrap();
        let trust = trust_in(temp_dir.path());
        let inner = temp_dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let link = temp_dir.path().join("link");
        symlink(&inner, &link).unwrap();
        let refusal_text = |path: &Path| {
            trust
                .directory(path)
                .map_err(|untrusted| untrusted.to_string())
        };
        assert_eq!(refusal_text(&link), Ok(inner.canonicalize().unwrap()));
        for (path, mode) in [
            (&inner, 0o775),
            (&inner, 0o1777),
            (&temp_dir.path().join("a"), 0o757),
        ] {
            chmod(path, mode);
            let untrusted = refusal_text(&inner).unwrap_err();
            assert!(
                untrusted.contains(&format!("mode {mode:04o}")),
                "{untrusted}"
            );
            chmod(path, 0o755);
        }
        chmod(&temp_dir.path().join("a"), 0o1777);
        assert!(refusal_text(&inner).is_ok());
        assert!(
            refusal_text(&temp_dir.path().join("none"))
                .unwrap_err()
                .contains("none")
        );
    }

    #[test]
    fn an_open_file_is_checked_for_owner_mode_and_mount() {
        let temp_dir = tempfile::tempdir().unwrap();
        let trust = trust_in(temp_dir.path());
        let path = temp_dir.path().join("x");
        fs::write(&path, "x").unwrap();
        chmod(&path, 0o644);
        let file = File::open(&path).unwrap();
        let refusal_text = |trust: FileTrust| {
            trust
                .file(&file, &path)
                .map_err(|untrusted| untrusted.to_string())
        };
        assert_eq!(refusal_text(trust), Ok(()));
        let elsewhere = FileTrust {
            mount: trust.mount.wrapping_add(1),
            ..trust
        };
        assert!(
            refusal_text(elsewhere)
                .unwrap_err()
                .contains("not part of the image")
        );
        chmod(&path, 0o664);
        assert!(
            refusal_text(trust)
                .unwrap_err()
                .contains("others than root")
        );
        let directory = File::open(temp_dir.path()).unwrap();
        assert!(matches!(
            trust.file(&directory, temp_dir.path()),
            Err(Untrusted::NoFile { .. })
        ));
    }

    #[test]
    fn files_of_other_users_are_not_trusted() {
        let temp_dir = tempfile::tempdir().unwrap();
        let trust = trust_in(temp_dir.path());
        let path = temp_dir.path().join("x");
        fs::write(&path, "x").unwrap();
        chmod(&path, 0o644);
        let stranger = if fs::metadata(&path).unwrap().uid() == ROOT {
            std::os::unix::fs::chown(&path, Some(107), None).unwrap();
            std::os::unix::fs::chown(temp_dir.path(), Some(107), None).unwrap();
            trust
        } else {
            // Whoever runs the test is a stranger where another owner is trusted.
            FileTrust {
                owner: trust.owner + 1,
                ..trust
            }
        };
        let file = File::open(&path).unwrap();
        for checked in [
            stranger.file(&file, &path),
            stranger.directory(temp_dir.path()).map(drop),
        ] {
            assert!(
                matches!(checked, Err(Untrusted::Owner { .. })),
                "{checked:?}"
            );
        }
    }

    #[test]
    fn mount_of_this_program_is_found() {
        assert_eq!(FileTrust::of_this_program().unwrap().owner, ROOT);
    }
}
