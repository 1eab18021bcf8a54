//! virtlogd's socket, held by the launcher and handed over at each start as systemd would.
//!
//! While virtlogd is away, libvirt's daemon can still connect: its request waits in the listen queue
//! until the next virtlogd takes it, so that a VM's start waits instead of failing. Without this a
//! session daemon would start a virtlogd of its own, and keep the launcher's from starting.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

const SHELL: &str = "/bin/sh";
/// The socket is standard input at first: the protocol wants it as descriptor 3, and the process's
/// own id in a variable. The shell becomes the daemon and keeps its process id.
const HAND_OVER: &str = "exec 3<&0 </dev/null; \
    LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=virtlogd.socket exec \"$0\" \"$@\"";

/// A listening socket that outlives the daemon's processes.
#[derive(Debug, Clone)]
pub(super) struct SocketActivation {
    socket: Arc<Socket>,
}

#[derive(Debug)]
struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl SocketActivation {
    /// Listens on `path`; what a virtlogd that is gone left there is removed.
    pub(super) fn listen(path: &Path) -> io::Result<SocketActivation> {
        if !Path::new(SHELL).exists() {
            return Err(io::Error::other(format!("there is no {SHELL}")));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        Ok(SocketActivation {
            socket: Arc::new(Socket {
                path: path.to_owned(),
                listener,
            }),
        })
    }

    /// A command that runs `program` with the socket.
    pub(super) fn command(&self, program: &Path) -> io::Result<tokio::process::Command> {
        let socket: OwnedFd = self.socket.listener.try_clone()?.into();
        let mut command = tokio::process::Command::new(SHELL);
        command
            .args(["-c", HAND_OVER])
            .arg(program)
            .stdin(Stdio::from(socket));
        Ok(command)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
