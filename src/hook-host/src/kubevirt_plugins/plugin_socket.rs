//! A plugin's socket: rules for its location, and the connection to it.
//!
//! KubeVirt's rule: the socket is in the plugin's own directory and is not a symbolic link. Here no
//! part of the path may be a symbolic link either, and the file that was checked is the one that is
//! dialled, even if another takes its path meanwhile: plugins write to their directories.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

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
    /// The path is outside of the plugin's directory, contains a link, or is not a socket.
    #[error("invalid socket path: {0}")]
    Invalid(String),
    /// The socket cannot be dialled.
    #[error("dialing sidecar socket {path}: {reason}")]
    Dial { path: PathBuf, reason: String },
}

/// The path of a socket in a plugin's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PluginSocket {
    plugins: PathBuf,
    /// The plugin's name and the path components below its directory.
    below: Vec<String>,
}

/// What is at the socket's path.
enum Lookup {
    Socket(OwnedFd),
    Nothing,
}

impl PluginSocket {
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
        _ if is_last => format!("{path} is not a socket"),
        _ => format!("{path} is not a directory"),
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
