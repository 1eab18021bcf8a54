//! Where a plugin's socket may be, and the way to it.
//!
//! KubeVirt's rule: in the plugin's own directory, and no symbolic link. Here the way there has no
//! link in it either, and what was looked at is what is dialled, whatever is put in its place
//! meanwhile: plugins write into their directories.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use tokio::net::UnixStream;

/// A socket that refuses is tried again for this long, as KubeVirt does it: its owner may be
/// starting again.
const REFUSED: Duration = Duration::from_secs(2);
/// Between two looks, the first time, then twice that, ...
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// ... up to this.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// A socket that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SocketError {
    /// It did not appear.
    #[error("sidecar socket {path} not ready after {waited:?}")]
    NotReady { path: PathBuf, waited: Duration },
    /// It is somebody else's, a link, or no socket.
    #[error("invalid socket path: {0}")]
    Invalid(String),
    /// It cannot be dialled.
    #[error("dialing sidecar socket {path}: {reason}")]
    Dial { path: PathBuf, reason: String },
}

/// A place in a plugin's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    plugins: PathBuf,
    /// The plugin's name, and the way from there.
    below: Vec<String>,
}

/// What a look at the place showed.
enum Found {
    Socket(OwnedFd),
    Nothing,
}

impl Place {
    /// `path` as the plugin names it; `plugins` holds one directory per plugin.
    pub(super) fn of(plugins: &Path, plugin: &str, path: &str) -> Result<Self, SocketError> {
        let outside = || {
            let own = plugins.join(plugin);
            SocketError::Invalid(format!(
                "socket path {path:?} is outside {}/",
                own.display()
            ))
        };
        if path.contains('\0') {
            return Err(SocketError::Invalid(format!(
                "socket path {path:?} holds a NUL"
            )));
        }
        let clean = clean(Path::new(path)).ok_or_else(outside)?;
        let below = clean.strip_prefix(plugins).map_err(|_| outside())?;
        let below: Vec<String> = below
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if below.len() < 2 || below[0] != plugin {
            return Err(outside());
        }
        Ok(Self {
            plugins: plugins.to_owned(),
            below,
        })
    }

    /// The directory that it is in.
    pub(super) fn directory(&self) -> PathBuf {
        let parents = &self.below[..self.below.len() - 1];
        parents
            .iter()
            .fold(self.plugins.clone(), |path, part| path.join(part))
    }

    /// The socket's file name.
    pub(super) fn file(&self) -> &str {
        self.below.last().map_or("", String::as_str)
    }

    fn path(&self) -> PathBuf {
        self.directory().join(self.file())
    }

    /// Waits up to `patience` for the socket to appear, and dials it.
    pub(super) async fn dial(&self, patience: Duration) -> Result<UnixStream, SocketError> {
        let started = Instant::now();
        let mut appeared = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let reason = match self.look()? {
                Found::Nothing => None,
                Found::Socket(socket) => match connect(&socket).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => Some(error),
                },
            };
            match reason {
                None if started.elapsed() >= patience => {
                    return Err(SocketError::NotReady {
                        path: self.path(),
                        waited: patience,
                    });
                }
                Some(error) => {
                    let since = *appeared.get_or_insert_with(Instant::now);
                    let comes = error.kind() == io::ErrorKind::ConnectionRefused;
                    if !comes || since.elapsed() >= REFUSED {
                        return Err(self.undialled(&error));
                    }
                }
                None => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    fn undialled(&self, error: &io::Error) -> SocketError {
        SocketError::Dial {
            path: self.path(),
            reason: error.to_string(),
        }
    }

    /// Goes down from the plugins' directory, step by step.
    fn look(&self) -> Result<Found, SocketError> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = match openat(CWD, &self.plugins, directory, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(error) => return Err(self.undialled(&error.into())),
        };
        let mut path = self.plugins.clone();
        for (index, part) in self.below.iter().enumerate() {
            path.push(part);
            let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = match openat(&at, part.as_str(), step, Mode::empty()) {
                Ok(opened) => opened,
                Err(Errno::NOENT) => return Ok(Found::Nothing),
                Err(error) => return Err(self.undialled(&error.into())),
            };
            let about = fstat(&at).map_err(|error| self.undialled(&error.into()))?;
            let is_last = index + 1 == self.below.len();
            right_kind(&path, FileType::from_raw_mode(about.st_mode), is_last)?;
        }
        Ok(Found::Socket(at))
    }
}

fn right_kind(path: &Path, found: FileType, is_last: bool) -> Result<(), SocketError> {
    let wanted = if is_last {
        FileType::Socket
    } else {
        FileType::Directory
    };
    if found == wanted {
        return Ok(());
    }
    let path = path.display();
    Err(SocketError::Invalid(match found {
        FileType::Symlink => format!("{path} is a symlink, which is not allowed"),
        _ if is_last => format!("{path} is no socket"),
        _ => format!("{path} is no directory"),
    }))
}

/// By the open file, not by its name again. That also reaches sockets whose path is longer than an
/// address may be.
async fn connect(socket: &OwnedFd) -> io::Result<UnixStream> {
    let name = format!("/proc/self/fd/{}", socket.as_raw_fd());
    match tokio::time::timeout(REFUSED, UnixStream::connect(name)).await {
        Ok(stream) => stream,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// An absolute path without `.` and `..`, by its letters alone.
fn clean(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(part) => clean.push(part),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    Some(clean)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn place(plugin: &str, path: &str) -> Result<Place, SocketError> {
        Place::of(Path::new("/var/run/kubevirt-plugin"), plugin, path)
    }

    #[test]
    fn a_socket_is_in_its_plugins_directory() {
        let own = place("numa", "/var/run/kubevirt-plugin/numa/sub/hook.sock").unwrap();
        assert_eq!(
            own.directory(),
            Path::new("/var/run/kubevirt-plugin/numa/sub")
        );
        assert_eq!(own.file(), "hook.sock");
        let odd = place(
            "numa",
            "/var/run//kubevirt-plugin/./other/../numa/hook.sock",
        );
        assert_eq!(
            odd.unwrap().path(),
            Path::new("/var/run/kubevirt-plugin/numa/hook.sock")
        );
        for (plugin, path) in [
            ("numa", "/var/run/kubevirt-plugin/other/hook.sock"),
            ("numa", "/var/run/kubevirt-plugin/numa/../other/hook.sock"),
            ("numa", "/var/run/kubevirt-plugin/numa"),
            ("numa", "/var/run/kubevirt-plugin/numa/"),
            ("numa", "/var/run/kubevirt-plugin/numa-2/hook.sock"),
            ("numa", "/run/libvirt/virtqemud-sock"),
            ("numa", "hook.sock"),
            ("numa", ""),
            ("", "/var/run/kubevirt-plugin/hook.sock"),
            ("..", "/var/run/kubevirt-plugin/../hook.sock"),
            ("../libvirt", "/var/run/libvirt/virtqemud-sock"),
            ("a/b", "/var/run/kubevirt-plugin/a/b/hook.sock"),
        ] {
            let error = place(plugin, path).unwrap_err().to_string();
            assert!(error.contains("is outside"), "{plugin} {path}: {error}");
        }
        assert!(place("numa", "/var/run/kubevirt-plugin/numa/a\0b").is_err());
    }

    async fn dial(plugins: &Path, path: &str) -> Result<UnixStream, SocketError> {
        let path = plugins.join(path).display().to_string();
        let place = Place::of(plugins, "numa", &path).unwrap();
        place.dial(Duration::from_millis(30)).await
    }

    #[tokio::test]
    async fn the_way_to_a_socket_has_no_links_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let plugins = dir.path();
        for name in ["numa", "numa/real", "other"] {
            std::fs::create_dir(plugins.join(name)).unwrap();
        }
        let _socket = UnixListener::bind(plugins.join("numa/real/hook.sock")).unwrap();
        let _other = UnixListener::bind(plugins.join("other/hook.sock")).unwrap();
        symlink("../other/hook.sock", plugins.join("numa/link.sock")).unwrap();
        symlink("real", plugins.join("numa/linked")).unwrap();
        std::fs::write(plugins.join("numa/file.sock"), "").unwrap();

        assert!(dial(plugins, "numa/real/hook.sock").await.is_ok());
        for (path, part) in [
            ("numa/link.sock", "is a symlink, which is not allowed"),
            (
                "numa/linked/hook.sock",
                "is a symlink, which is not allowed",
            ),
            ("numa/file.sock", "is no socket"),
            ("numa/real", "is no socket"),
            ("numa/file.sock/x", "is no directory"),
            ("numa/none.sock", "not ready after 30ms"),
            ("numa/none/hook.sock", "not ready after 30ms"),
        ] {
            let error = dial(plugins, path).await.unwrap_err().to_string();
            assert!(error.contains(part), "{path}: {error}");
        }
    }

    #[tokio::test]
    async fn a_socket_whose_path_is_longer_than_an_address_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(150);
        let deep = dir.path().join("numa").join(&long);
        std::fs::create_dir_all(&deep).unwrap();
        // Made under a short name, for the same reason.
        let _socket = UnixListener::bind(dir.path().join("s")).unwrap();
        std::fs::rename(dir.path().join("s"), deep.join("s")).unwrap();
        assert!(dial(dir.path(), &format!("numa/{long}/s")).await.is_ok());
    }

    #[tokio::test]
    async fn nobody_behind_a_socket_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("numa")).unwrap();
        drop(UnixListener::bind(dir.path().join("numa/dead.sock")).unwrap());
        let error = dial(dir.path(), "numa/dead.sock").await.unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
