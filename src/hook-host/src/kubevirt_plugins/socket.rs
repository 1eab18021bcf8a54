//! The location rules of a plugin's socket, and dialling it.
//!
//! KubeVirt's rule: the socket is in the plugin's own directory and is no symbolic link. Here no
//! part of the path may be a symbolic link either, and the file that was checked is the one that is
//! dialled, even if another takes its path meanwhile: plugins write to their directories.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use tokio::net::UnixStream;

/// How long a refusing socket is retried, as in KubeVirt: its owner may be
/// restarting.
const REFUSED: Duration = Duration::from_secs(2);
/// The first pause between two attempts; each following pause is twice as long, ...
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// ... up to this.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Why a plugin's socket cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SocketError {
    /// The socket did not appear in time.
    #[error("sidecar socket {path} not ready after {waited:?}")]
    NotReady { path: PathBuf, waited: Duration },
    /// The path is outside of the plugin's directory, contains a link, or is no socket.
    #[error("invalid socket path: {0}")]
    Invalid(String),
    /// The socket cannot be dialled.
    #[error("dialing sidecar socket {path}: {reason}")]
    Dial { path: PathBuf, reason: String },
}

/// The path of a socket in a plugin's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SocketPath {
    plugins: PathBuf,
    /// The plugin's name and the path components below its directory.
    below: Vec<String>,
}

/// What is at the socket's path.
enum Lookup {
    Socket(OwnedFd),
    Nothing,
}

impl SocketPath {
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

    /// The socket's directory.
    pub(super) fn directory(&self) -> PathBuf {
        let parents = &self.below[..self.below.len() - 1];
        parents
            .iter()
            .fold(self.plugins.clone(), |path, part| path.join(part))
    }

    /// The plugin, if the socket is directly in the plugin's directory.
    pub(super) fn plugin_of_direct_child(&self) -> Option<&str> {
        match &self.below[..] {
            [plugin, _] => Some(plugin),
            _ => None,
        }
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
            let reason = match self.look_up()? {
                Lookup::Nothing => None,
                Lookup::Socket(socket) => match connect(&socket).await {
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
                        return Err(self.dial_error(&error));
                    }
                }
                None => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    fn dial_error(&self, error: &io::Error) -> SocketError {
        SocketError::Dial {
            path: self.path(),
            reason: error.to_string(),
        }
    }

    /// Opens each path component below the plugins directory without following links.
    fn look_up(&self) -> Result<Lookup, SocketError> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = match openat(CWD, &self.plugins, directory, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(Lookup::Nothing),
            Err(error) => return Err(self.dial_error(&error.into())),
        };
        let mut path = self.plugins.clone();
        for (index, part) in self.below.iter().enumerate() {
            path.push(part);
            let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = match openat(&at, part.as_str(), step, Mode::empty()) {
                Ok(opened) => opened,
                Err(Errno::NOENT) => return Ok(Lookup::Nothing),
                Err(error) => return Err(self.dial_error(&error.into())),
            };
            let metadata = fstat(&at).map_err(|error| self.dial_error(&error.into()))?;
            let is_last = index + 1 == self.below.len();
            check_file_type(&path, FileType::from_raw_mode(metadata.st_mode), is_last)?;
        }
        Ok(Lookup::Socket(at))
    }
}

fn check_file_type(path: &Path, found: FileType, is_last: bool) -> Result<(), SocketError> {
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

/// Dials the open file rather than its path. This also reaches sockets whose path is longer than an
/// address may be.
async fn connect(socket: &OwnedFd) -> io::Result<UnixStream> {
    let name = format!("/proc/self/fd/{}", socket.as_raw_fd());
    match tokio::time::timeout(REFUSED, UnixStream::connect(name)).await {
        Ok(stream) => stream,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Normalises an absolute path lexically: removes `.` and `..` without touching the file system.
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

    fn socket_path(plugin: &str, path: &str) -> Result<SocketPath, SocketError> {
        SocketPath::of(Path::new("/var/run/kubevirt-plugin"), plugin, path)
    }

    #[test]
    fn a_socket_outside_of_its_plugins_directory_is_refused() {
        let own = socket_path("numa", "/var/run/kubevirt-plugin/numa/sub/hook.sock").unwrap();
        assert_eq!(
            own.directory(),
            Path::new("/var/run/kubevirt-plugin/numa/sub")
        );
        assert_eq!(own.file(), "hook.sock");
        let odd = socket_path(
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
            let error = socket_path(plugin, path).unwrap_err().to_string();
            assert!(error.contains("is outside"), "{plugin} {path}: {error}");
        }
        assert!(socket_path("numa", "/var/run/kubevirt-plugin/numa/a\0b").is_err());
    }

    async fn dial(plugins: &Path, path: &str) -> Result<UnixStream, SocketError> {
        let path = plugins.join(path).display().to_string();
        let socket_path = SocketPath::of(plugins, "numa", &path).unwrap();
        socket_path.dial(Duration::from_millis(30)).await
    }

    #[tokio::test]
    async fn symbolic_links_in_a_socket_path_are_refused() {
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
    async fn a_socket_without_a_listener_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("numa")).unwrap();
        drop(UnixListener::bind(dir.path().join("numa/dead.sock")).unwrap());
        let error = dial(dir.path(), "numa/dead.sock").await.unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
