//! A plugin's socket: checks of its path, and the connection to it.
//!
//! KubeVirt requires that the socket is in the plugin's own directory and is not a symbolic link. Here, no
//! component of the path may be a symbolic link either. Plugins can write to their directories, so the checked file is
//! dialled through its descriptor, even if another file gets its path meanwhile.

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use tokio::net::UnixStream;

/// How long to retry a socket that refuses connections, as in KubeVirt: the sidecar may be
/// restarting. Also the timeout of one connection attempt.
const REFUSED_RETRY_TIME: Duration = Duration::from_secs(2);
/// The first pause between two attempts; each following pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Maximum pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Why a plugin's socket cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SocketError {
    /// The socket did not appear in time.
    #[error("sidecar socket {path} not ready after {waited:?}")]
    NotReady { path: PathBuf, waited: Duration },
    /// The path is outside of the plugin's directory, contains a symbolic link, or is not that of a socket.
    #[error("invalid socket path: {0}")]
    Invalid(String),
    /// The socket cannot be dialled.
    #[error("dialing sidecar socket {path}: {reason}")]
    Dial { path: PathBuf, reason: String },
}

/// The path of a socket in a plugin's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PluginSocket {
    /// The directory with one sub-directory per plugin.
    plugins: PathBuf,
    /// The components of the path below `plugins`: the plugin's name, sub-directories, and the file name.
    components: Vec<String>,
}

/// The result of looking the socket's path up.
enum Lookup {
    Socket(OwnedFd),
    Absent,
}

impl PluginSocket {
    /// Checks the path `path` that the plugin declares. `plugins` has one sub-directory per plugin.
    pub(super) fn new(plugins: &Path, plugin: &str, path: &str) -> Result<Self, SocketError> {
        let outside = || {
            let plugin_dir = plugins.join(plugin);
            SocketError::Invalid(format!(
                "socket path {path:?} is outside {}/",
                plugin_dir.display()
            ))
        };
        if path.contains('\0') {
            return Err(SocketError::Invalid(format!(
                "socket path {path:?} holds a NUL"
            )));
        }
        let normalized = normalize(Path::new(path)).ok_or_else(outside)?;
        let components = normalized.strip_prefix(plugins).map_err(|_| outside())?;
        let components: Vec<String> = components
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if components.len() < 2 || components[0] != plugin {
            return Err(outside());
        }
        Ok(Self {
            plugins: plugins.to_owned(),
            components,
        })
    }

    /// The directory of the socket.
    pub(super) fn directory(&self) -> PathBuf {
        let parents = &self.components[..self.components.len() - 1];
        parents
            .iter()
            .fold(self.plugins.clone(), |path, part| path.join(part))
    }

    /// The plugin's name, if the socket is directly in the plugin's directory.
    pub(super) fn plugin_of_direct_child(&self) -> Option<&str> {
        match &self.components[..] {
            [plugin, _] => Some(plugin),
            _ => None,
        }
    }

    /// The socket's file name.
    pub(super) fn file(&self) -> &str {
        self.components.last().map_or("", String::as_str)
    }

    fn path(&self) -> PathBuf {
        self.directory().join(self.file())
    }

    /// Waits up to `socket_timeout` for the socket to appear, and dials it.
    pub(super) async fn dial(&self, socket_timeout: Duration) -> Result<UnixStream, SocketError> {
        let started = Instant::now();
        let mut first_refused = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let dial_error = match self.look_up()? {
                Lookup::Absent => None,
                Lookup::Socket(socket) => match connect(&socket).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => Some(error),
                },
            };
            match dial_error {
                None if started.elapsed() >= socket_timeout => {
                    return Err(SocketError::NotReady {
                        path: self.path(),
                        waited: socket_timeout,
                    });
                }
                Some(error) => {
                    let since = *first_refused.get_or_insert_with(Instant::now);
                    let may_restart = error.kind() == io::ErrorKind::ConnectionRefused;
                    if !may_restart || since.elapsed() >= REFUSED_RETRY_TIME {
                        return Err(self.dial_error(&error));
                    }
                }
                None => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn dial_error(&self, error: &io::Error) -> SocketError {
        SocketError::Dial {
            path: self.path(),
            reason: error.to_string(),
        }
    }

    /// Opens the path component by component below the directory of plugins, without following symbolic links.
    fn look_up(&self) -> Result<Lookup, SocketError> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut opened = match openat(CWD, &self.plugins, directory, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(Lookup::Absent),
            Err(error) => return Err(self.dial_error(&error.into())),
        };
        let mut path = self.plugins.clone();
        for (index, part) in self.components.iter().enumerate() {
            path.push(part);
            let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            opened = match openat(&opened, part.as_str(), step, Mode::empty()) {
                Ok(component) => component,
                Err(Errno::NOENT) => return Ok(Lookup::Absent),
                Err(error) => return Err(self.dial_error(&error.into())),
            };
            let metadata = fstat(&opened).map_err(|error| self.dial_error(&error.into()))?;
            let is_last = index + 1 == self.components.len();
            check_file_type(&path, FileType::from_raw_mode(metadata.st_mode), is_last)?;
        }
        Ok(Lookup::Socket(opened))
    }
}

fn check_file_type(path: &Path, file_type: FileType, is_last: bool) -> Result<(), SocketError> {
    let expected = if is_last {
        FileType::Socket
    } else {
        FileType::Directory
    };
    if file_type == expected {
        return Ok(());
    }
    let path = path.display();
    Err(SocketError::Invalid(match file_type {
        FileType::Symlink => format!("{path} is a symlink, which is not allowed"),
        _ if is_last => format!("{path} is not a socket"),
        _ => format!("{path} is not a directory"),
    }))
}

/// Dials the open file instead of its path. This also reaches sockets whose path is longer than a socket
/// address.
async fn connect(socket: &OwnedFd) -> io::Result<UnixStream> {
    let name = format!("/proc/self/fd/{}", socket.as_raw_fd());
    match tokio::time::timeout(REFUSED_RETRY_TIME, UnixStream::connect(name)).await {
        Ok(stream) => stream,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Normalizes an absolute path lexically: removes `.` and `..` without access to the file system.
fn normalize(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut normalized = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(part) => normalized.push(part),
            Component::ParentDir => {
                normalized.pop();
            }
            _ => {}
        }
    }
    Some(normalized)
}
