//! Creates the listening socket in a hidden directory and renames it into place.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::ServeError;

/// Maximum length of a path in a `sockaddr_un` in bytes, without the terminating zero.
const MAX_PATH_BYTES: usize = 107;
/// The socket's name in the hidden directory.
const HIDDEN_NAME: &str = "s";

/// A hidden directory beside the future socket: with mode 0700, on the same file system,
/// skipped by launchers, and removed once the socket is in place or on drop. Callers may keep
/// temporary files in it until then.
#[derive(Debug)]
pub struct SocketStaging {
    socket: PathBuf,
    private: PathBuf,
}

/// A socket at its final path. It is removed on drop, unless another file has this path by then.
#[derive(Debug)]
pub(super) struct PublishedSocket {
    path: PathBuf,
    inode: u64,
}

impl SocketStaging {
    /// Prepares the socket `file` in `directory`, which must exist. A stale socket of an ended
    /// process is removed; a socket that answers is an error.
    pub fn prepare(directory: &Path, file: &str) -> Result<Self, ServeError> {
        if !directory.is_dir() {
            return Err(ServeError::NoDirectory {
                directory: directory.to_owned(),
            });
        }
        let socket = directory.join(file);
        let private = directory.join(format!(".{file}"));
        check_length(&socket)?;
        check_length(&private.join(HIDDEN_NAME))?;
        remove_stale_socket(&socket)?;
        let created =
            remove(&private).and_then(|()| DirBuilder::new().mode(0o700).create(&private));
        created.map_err(|source| ServeError::Io {
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

    /// The final path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Creates the listening socket and renames it into place.
    pub(super) fn publish(self) -> Result<(UnixListener, PublishedSocket), ServeError> {
        let hidden = self.private.join(HIDDEN_NAME);
        let io_error = |source| ServeError::Io {
            path: self.socket.clone(),
            source,
        };
        let listener = UnixListener::bind(&hidden).map_err(io_error)?;
        // The launcher may run as another user. Only containers of the pod can reach the directory.
        fs::set_permissions(&hidden, Permissions::from_mode(0o666)).map_err(io_error)?;
        let inode = fs::metadata(&hidden).map_err(io_error)?.ino();
        fs::rename(&hidden, &self.socket).map_err(io_error)?;
        let socket = PublishedSocket {
            path: self.socket.clone(),
            inode,
        };
        Ok((listener, socket))
    }
}

impl Drop for SocketStaging {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.private) {
            tracing::warn!(directory = %self.private.display(), %error, "a hidden directory stays");
        }
    }
}

impl PublishedSocket {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PublishedSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn check_length(path: &Path) -> Result<(), ServeError> {
    if path.as_os_str().len() <= MAX_PATH_BYTES {
        return Ok(());
    }
    Err(ServeError::PathTooLong {
        path: path.to_owned(),
        limit: MAX_PATH_BYTES,
    })
}

/// Removes a socket on which no process listens. Any other file is an error.
fn remove_stale_socket(path: &Path) -> Result<(), ServeError> {
    let io_error = |source| ServeError::Io {
        path: path.to_owned(),
        source,
    };
    let occupied = |what| ServeError::PathInUse {
        path: path.to_owned(),
        what,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(io_error(source)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(occupied("something is there that is not a socket"))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => Err(occupied("another process serves there")),
        Ok(_) => fs::remove_file(path).map_err(io_error),
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[tokio::test]
    async fn the_socket_is_renamed_into_place_and_removed_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        // What a killed process has left.
        fs::create_dir_all(dir.path().join(".a.sock/compiled")).unwrap();
        drop(UnixListener::bind(dir.path().join("a.sock")).unwrap());
        let staging = SocketStaging::prepare(dir.path(), "a.sock").unwrap();
        let mode = fs::metadata(staging.private()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(fs::read_dir(staging.private()).unwrap().count(), 0);
        assert_eq!(names(dir.path()), [".a.sock"]);
        let (_listener, socket) = staging.publish().unwrap();
        assert_eq!(names(dir.path()), ["a.sock"]);
        UnixStream::connect(socket.path()).unwrap();
        let error = SocketStaging::prepare(dir.path(), "a.sock").unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(socket);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn staging_directory_is_removed_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        drop(SocketStaging::prepare(dir.path(), "a.sock").unwrap());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn existing_files_missing_directories_and_long_paths_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.sock"), "").unwrap();
        let error = |directory: &Path, file: &str| {
            let error = SocketStaging::prepare(directory, file).unwrap_err();
            error.to_string()
        };
        assert!(error(dir.path(), "a.sock").contains("not a socket"));
        assert!(error(&dir.path().join("none"), "a.sock").contains("shares it with the launcher"));
        assert!(error(dir.path(), &"a".repeat(100)).contains("at most 107 bytes"));
    }
}
