//! QEMU's process, watched by its pid file: libvirt tells of its end too, but not when its daemon
//! has ended with it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

use crate::manager::VmState;
use crate::notify::Fact;

/// The pid file is there before libvirt says that the domain runs; a slow disk may delay it.
const POLL: Duration = Duration::from_millis(100);
/// libvirt has this long to tell of the end by itself.
const LIBVIRTS_WORD: Duration = Duration::from_secs(3);

/// Watches for as long as the launcher lives, through repeated starts.
pub async fn watch(
    pid_file: PathBuf,
    mut state: watch::Receiver<VmState>,
    facts: mpsc::UnboundedSender<Fact>,
) {
    while state
        .wait_for(|state| *state == VmState::Active)
        .await
        .is_ok()
    {
        if let Some(process) = find(&pid_file, &state).await {
            let _ = process.ended().await;
            tracing::info!(pid = process.pid, "QEMU has ended");
        }
        let known = state.wait_for(|state| *state != VmState::Active);
        if tokio::time::timeout(LIBVIRTS_WORD, known).await.is_err() {
            tracing::warn!("QEMU has ended and libvirt does not say so");
            if facts.send(Fact::QemuEnded).is_err() {
                return;
            }
            let _ = state.changed().await;
        }
    }
}

/// Sends SIGTERM to QEMU, past libvirt.
pub fn terminate(pid_file: &Path) -> io::Result<()> {
    let process = Process::open(pid_file)?;
    Ok(pidfd_send_signal(process.fd.get_ref(), Signal::TERM)?)
}

async fn find(pid_file: &Path, state: &watch::Receiver<VmState>) -> Option<Process> {
    while *state.borrow() == VmState::Active {
        match Process::open(pid_file) {
            Ok(process) => {
                tracing::info!(pid = process.pid, "found QEMU");
                return Some(process);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(reason = %error, path = %pid_file.display(), "QEMU's pid file");
            }
        }
        tokio::time::sleep(POLL).await;
    }
    None
}

struct Process {
    pid: i32,
    fd: AsyncFd<OwnedFd>,
}

impl Process {
    /// Opens the process that the file names. The file is read again afterwards: when it still says
    /// the same, the pid was not somebody else's by then.
    fn open(pid_file: &Path) -> io::Result<Process> {
        let pid = read(pid_file)?;
        let fd = pidfd_open(pid, PidfdFlags::empty())?;
        if read(pid_file)? != pid {
            return Err(io::Error::other("the pid file changed while it was read"));
        }
        Ok(Process {
            pid: pid.as_raw_nonzero().get(),
            fd: register(fd)?,
        })
    }

    async fn ended(&self) -> io::Result<()> {
        self.fd.readable().await.map(drop)
    }
}

#[expect(
    deprecated,
    reason = "tokio warns of types that may close their descriptor early; an OwnedFd does not"
)]
fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

fn read(pid_file: &Path) -> io::Result<Pid> {
    let text = std::fs::read_to_string(pid_file)?;
    let pid = text.trim().parse().ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other(format!("{} holds no pid: {text:?}", pid_file.display())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Child, Command};

    use super::*;

    fn sleeper(directory: &Path) -> (Child, PathBuf) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid_file = directory.join("default_vm1.pid");
        std::fs::write(&pid_file, child.id().to_string()).unwrap();
        (child, pid_file)
    }

    #[tokio::test]
    async fn an_end_that_libvirt_does_not_tell_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, pid_file) = sleeper(directory.path());
        let (state, seen) = watch::channel(VmState::Active);
        let (facts, mut told) = mpsc::unbounded_channel();
        tokio::spawn(watch(pid_file.clone(), seen, facts));
        tokio::time::sleep(Duration::from_millis(50)).await;
        terminate(&pid_file).unwrap();
        child.wait().unwrap();
        let fact = tokio::time::timeout(LIBVIRTS_WORD * 2, told.recv())
            .await
            .unwrap();
        assert_eq!(fact, Some(Fact::QemuEnded));
        drop(state);
    }

    #[tokio::test]
    async fn an_end_that_libvirt_tells_is_not_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, pid_file) = sleeper(directory.path());
        let (state, seen) = watch::channel(VmState::Active);
        let (facts, mut told) = mpsc::unbounded_channel();
        let watching = tokio::spawn(watch(pid_file, seen, facts));
        tokio::time::sleep(Duration::from_millis(50)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        state.send_replace(VmState::Down);
        drop(state);
        watching.await.unwrap();
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn a_pid_file_without_a_pid_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.pid");
        std::fs::write(&path, "many").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("x.pid"));
    }
}
