//! QEMU's process, found by the pid file that libvirt writes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// QEMU's process, held by a descriptor: its pid is not mistaken for another process's.
pub(crate) struct QemuProcess {
    pid: i32,
    fd: AsyncFd<OwnedFd>,
}

impl QemuProcess {
    /// Opens the process that the file names. The file is read again afterwards: when it still says
    /// the same, the pid was not reused by then.
    pub(crate) fn open(pid_file: &Path) -> io::Result<QemuProcess> {
        let pid = read(pid_file)?;
        let fd = pidfd_open(pid, PidfdFlags::empty())?;
        if read(pid_file)? != pid {
            return Err(io::Error::other("the pid file changed while it was read"));
        }
        Ok(QemuProcess {
            pid: pid.as_raw_nonzero().get(),
            fd: register(fd)?,
        })
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the process runs this domain. A pid file may outlive its process, and the pid may be reused.
    pub(crate) fn runs(&self, domain: &str) -> bool {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0);
        let wanted = format!("guest={domain}");
        arguments.any(|argument| {
            argument
                .split(|byte| *byte == b',')
                .any(|part| part == wanted.as_bytes())
        })
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(self.fd.get_ref(), signal)?)
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        self.fd.readable().await.map(drop)
    }

    /// Whether the process ends within the time limit.
    pub(crate) async fn ended_within(&self, deadline: Duration) -> bool {
        matches!(
            tokio::time::timeout(deadline, self.ended()).await,
            Ok(Ok(()))
        )
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
    use std::process::Command;

    use super::*;

    #[test]
    fn pid_file_without_a_pid_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.pid");
        std::fs::write(&path, "many").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("x.pid"));
    }

    #[tokio::test]
    async fn process_is_matched_to_its_domain_and_its_end_seen() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("x.pid");
        let arguments = ["-c", "sleep 60; :", "guest=default_vm1,debug-threads=on"];
        let mut child = Command::new("sh").args(arguments).spawn().unwrap();
        std::fs::write(&pid_file, child.id().to_string()).unwrap();
        let process = QemuProcess::open(&pid_file).unwrap();
        let is_running = |domain| process.runs(domain);
        // Between fork and exec the child has this test's arguments.
        while !is_running("default_vm1") {
            tokio::task::yield_now().await;
        }
        assert!(!is_running("default_vm"));
        assert!(!process.ended_within(Duration::from_millis(10)).await);
        process.signal(Signal::KILL).unwrap();
        assert!(process.ended_within(Duration::from_secs(60)).await);
        child.wait().unwrap();
    }
}
