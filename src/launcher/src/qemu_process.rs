//! QEMU's process, found by the PID file that libvirt writes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// QEMU's process, held as a pidfd so that a process with a reused PID is never signalled.
pub(crate) struct QemuProcess {
    pid: i32,
    fd: AsyncFd<OwnedFd>,
}

impl QemuProcess {
    /// Opens the process whose PID the file contains. The file is read again after that: if the PID is unchanged, it
    /// was not reused before the pidfd was opened.
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

    /// The process ID.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the process is the QEMU of this domain. A PID file may outlive its process, and the PID may be reused.
    pub(crate) fn is_qemu_of_domain(&self, domain: &str) -> bool {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0);
        let guest_name = format!("guest={domain}");
        arguments.any(|argument| {
            argument
                .split(|byte| *byte == b',')
                .any(|part| part == guest_name.as_bytes())
        })
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(self.fd.get_ref(), signal)?)
    }

    /// Waits until the process has ended.
    pub(crate) async fn wait_for_exit(&self) -> io::Result<()> {
        loop {
            // tokio may report a descriptor as readable when it is not.
            let mut ready = self.fd.readable().await?;
            if self.has_exited()? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// A pidfd is readable from the end of its process on.
    fn has_exited(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.fd.get_ref(), PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec::default()))? > 0)
    }

    /// Whether the process ends within `timeout`.
    pub(crate) async fn exits_within(&self, timeout: Duration) -> bool {
        matches!(
            tokio::time::timeout(timeout, self.wait_for_exit()).await,
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

/// Sends SIGTERM to QEMU directly, without libvirt.
pub(crate) fn terminate(pid_file: &Path) -> io::Result<()> {
    QemuProcess::open(pid_file)?.signal(Signal::TERM)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn error_contains_the_path_of_a_pid_file_without_a_pid() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.pid");
        std::fs::write(&path, "many").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("x.pid"));
    }

    #[tokio::test]
    async fn process_is_matched_to_its_domain_and_its_exit_is_awaited() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("x.pid");
        let arguments = ["-c", "sleep 60; :", "guest=default_vm1,debug-threads=on"];
        let mut child = Command::new("sh").args(arguments).spawn().unwrap();
        std::fs::write(&pid_file, child.id().to_string()).unwrap();
        let process = QemuProcess::open(&pid_file).unwrap();
        let is_running = |domain| process.is_qemu_of_domain(domain);
        // Between fork and exec the child has this test's arguments.
        while !is_running("default_vm1") {
            tokio::task::yield_now().await;
        }
        assert!(!is_running("default_vm"));
        assert!(!process.exits_within(Duration::from_millis(10)).await);
        process.signal(Signal::KILL).unwrap();
        assert!(process.exits_within(Duration::from_secs(60)).await);
        child.wait().unwrap();
    }
}
