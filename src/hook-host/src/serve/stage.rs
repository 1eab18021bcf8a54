//! Where a socket is made before anyone may see it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::ServeError;

/// What fits into a `sockaddr_un`, its terminating zero aside.
const MAX_PATH: usize = 107;
/// A socket's name while it is hidden.
const HIDDEN: &str = "s";

/// A hidden directory beside the socket to come: private (0700), on the same file system, skipped
/// by launchers, gone once the socket is in place or when dropped. There is room in it for what is
/// needed only until then.
#[derive(Debug)]
pub struct Stage {
    socket: PathBuf,
    private: PathBuf,
}

/// A socket that is in place; removed when dropped, if it is still the one.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Stage {
    /// Prepares for the socket `file` in `directory`, which must be there. What a process that
    /// is gone left under that name is removed; a socket that answers is not.
    pub fn prepare(directory: &Path, file: &str) -> Result<Self, ServeError> {
        if !directory.is_dir() {
            return Err(ServeError::NoDirectory {
                directory: directory.to_owned(),
            });
        }
        let socket = directory.join(file);
        let private = directory.join(format!(".{file}"));
        fits(&socket)?;
        fits(&private.join(HIDDEN))?;
        clear(&socket)?;
        let made = remove(&private).and_then(|()| DirBuilder::new().mode(0o700).create(&private));
        made.map_err(|source| ServeError::Io {
            path: private.clone(),
            source,
        })?;
        Ok(Self { socket, private })
    }

    /// The hidden directory.
    #[must_use]
    pub fn private(&self) -> &Path {
        &self.private
    }

    /// Where the socket will be.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Makes the socket, listening, and puts it in place.
    pub(super) fn publish(self) -> Result<(UnixListener, Socket), ServeError> {
        let hidden = self.private.join(HIDDEN);
        let failed = |source| ServeError::Io {
            path: self.socket.clone(),
            source,
        };
        let listener = UnixListener::bind(&hidden).map_err(failed)?;
        // The launcher may run as another user; who reaches the directory belongs to the pod.
        fs::set_permissions(&hidden, Permissions::from_mode(0o666)).map_err(failed)?;
        let inode = fs::metadata(&hidden).map_err(failed)?.ino();
        fs::rename(&hidden, &self.socket).map_err(failed)?;
        let socket = Socket {
            path: self.socket.clone(),
            inode,
        };
        Ok((listener, socket))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.private) {
            tracing::warn!(directory = %self.private.display(), %error, "a hidden directory stays");
        }
    }
}

impl Socket {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn fits(path: &Path) -> Result<(), ServeError> {
    if path.as_os_str().len() <= MAX_PATH {
        return Ok(());
    }
    Err(ServeError::PathTooLong {
        path: path.to_owned(),
        limit: MAX_PATH,
    })
}

/// Removes what a process that is gone left there, so that a socket there is one that answers.
fn clear(path: &Path) -> Result<(), ServeError> {
    let failed = |source| ServeError::Io {
        path: path.to_owned(),
        source,
    };
    let taken = |what| ServeError::Taken {
        path: path.to_owned(),
        what,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(failed(source)),
        Ok(found) if !found.file_type().is_socket() => {
            Err(taken("something is there that is no socket"))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => Err(taken("another process serves there")),
        Ok(_) => fs::remove_file(path).map_err(failed),
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[tokio::test]
    async fn nothing_is_seen_before_and_nothing_is_left_after() {
        let dir = tempfile::tempdir().unwrap();
        // A process before this one was killed.
        fs::create_dir_all(dir.path().join(".a.sock/compiled")).unwrap();
        drop(UnixListener::bind(dir.path().join("a.sock")).unwrap());
        let stage = Stage::prepare(dir.path(), "a.sock").unwrap();
        let mode = fs::metadata(stage.private()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(fs::read_dir(stage.private()).unwrap().count(), 0);
        assert_eq!(names(dir.path()), [".a.sock"]);
        let (_listener, socket) = stage.publish().unwrap();
        assert_eq!(names(dir.path()), ["a.sock"]);
        UnixStream::connect(socket.path()).unwrap();
        let error = Stage::prepare(dir.path(), "a.sock").unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(socket);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_stage_that_is_not_used_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(Stage::prepare(dir.path(), "a.sock").unwrap());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.sock"), "").unwrap();
        let error = |directory: &Path, file: &str| {
            let error = Stage::prepare(directory, file).unwrap_err();
            error.to_string()
        };
        assert!(error(dir.path(), "a.sock").contains("no socket"));
        assert!(error(&dir.path().join("none"), "a.sock").contains("shares it with the launcher"));
        assert!(error(dir.path(), &"a".repeat(100)).contains("at most 107 bytes"));
    }
}
