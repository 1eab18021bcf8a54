//! Socket activation of virtlogd: the launcher keeps the listening socket, and passes it to each virtlogd as systemd
//! would.
//!
//! While virtlogd does not run, libvirt's daemon can still connect: the connection waits in the listen queue until the
//! next virtlogd accepts it, so that a VM's start waits instead of failing. Without this a session daemon would start a
//! virtlogd of its own, which would keep the launcher's virtlogd from starting.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

const SHELL: &str = "/bin/sh";
/// A shell script that executes the daemon with the socket as descriptor 3, and with its process id in a variable, as
/// the protocol demands. The script gets the socket as standard input. The daemon has the shell's process id.
const ACTIVATION_SCRIPT: &str = "exec 3<&0 </dev/null; \
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
    /// Listens on `path`. Removes the socket of a virtlogd that has ended.
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
            .args(["-c", ACTIVATION_SCRIPT])
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
