//! Watches QEMU's process through its PID file. libvirt sends no event of QEMU's end if its daemon has ended, too, or
//! if it gives up a domain that it receives; in the latter case the process may be gone before it is found.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::manager::Phase;
use crate::qemu_process::QemuProcess;
use crate::vm_events::{VmEvent, VmEventSender};

/// How often the PID file is looked for. It exists before libvirt reports the domain as running, unless a slow disk
/// delays it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After this time without a process, the observer is told to read the domain again. Each further time is twice as
/// long.
const FIRST_MISSING_REPORT_DELAY: Duration = Duration::from_secs(2);
/// How long to wait for libvirt's own event of the end, which has the reason.
const LIBVIRT_EVENT_TIMEOUT: Duration = Duration::from_millis(800);

/// Watches QEMU until the launcher ends, also if the VM is started again.
pub(crate) async fn watch(
    pid_file: PathBuf,
    mut phase: watch::Receiver<Phase>,
    events: VmEventSender,
) {
    while phase
        .wait_for(|phase| *phase == Phase::Active)
        .await
        .is_ok()
    {
        if let Some(process) = find(&pid_file, &phase, &events).await {
            match process.wait_for_exit().await {
                Ok(()) => tracing::info!(pid = process.pid(), "QEMU has ended"),
                Err(error) => {
                    tracing::error!(reason = %error, pid = process.pid(), "QEMU's process cannot be watched");
                }
            }
        }
        let phase_change = phase.wait_for(|phase| *phase != Phase::Active);
        let is_unreported = tokio::time::timeout(LIBVIRT_EVENT_TIMEOUT, phase_change)
            .await
            .is_err();
        // The VM may have been started again meanwhile.
        if is_unreported && !is_running(&pid_file).await {
            tracing::warn!("QEMU has ended and libvirt does not say so");
            if events.send(VmEvent::QemuExited).is_err() {
                return;
            }
            let _ = phase.changed().await;
        }
    }
}

/// Whether the PID file names a running process. A process that has exited and was not reaped by libvirt's daemon does
/// not count.
async fn is_running(pid_file: &Path) -> bool {
    match QemuProcess::open(pid_file) {
        Ok(process) => !process.exits_within(POLL_INTERVAL).await,
        Err(_) => false,
    }
}

/// Waits for QEMU's process; `None` if the VM is no longer active.
async fn find(
    pid_file: &Path,
    phase: &watch::Receiver<Phase>,
    events: &VmEventSender,
) -> Option<QemuProcess> {
    let (mut last_report, mut report_delay) = (Instant::now(), FIRST_MISSING_REPORT_DELAY);
    while *phase.borrow() == Phase::Active {
        match QemuProcess::open(pid_file) {
            Ok(process) => {
                tracing::info!(pid = process.pid(), "found QEMU");
                return Some(process);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(reason = %error, path = %pid_file.display(), "QEMU's pid file");
            }
        }
        if last_report.elapsed() >= report_delay {
            // Fails only when the observer is gone.
            let _ = events.send(VmEvent::QemuMissing);
            (last_report, report_delay) = (Instant::now(), report_delay * 2);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::qemu_process::terminate;
    use crate::vm_events::vm_event_queue;

    /// A process with a PID file, in place of QEMU.
    fn spawn_process(directory: &Path) -> (Child, PathBuf) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid_file = directory.join("default_vm1.pid");
        std::fs::write(&pid_file, child.id().to_string()).unwrap();
        (child, pid_file)
    }

    #[tokio::test]
    async fn end_without_a_libvirt_event_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, pid_file) = spawn_process(directory.path());
        let (sender, phase) = watch::channel(Phase::Active);
        let (events, mut received) = vm_event_queue();
        tokio::spawn(watch(pid_file.clone(), phase, events));
        tokio::time::sleep(Duration::from_millis(50)).await;
        terminate(&pid_file).unwrap();
        child.wait().unwrap();
        let event = tokio::time::timeout(LIBVIRT_EVENT_TIMEOUT * 2, received.recv())
            .await
            .unwrap();
        assert_eq!(event, Some(VmEvent::QemuExited));
        drop(sender);
    }

    #[tokio::test]
    async fn process_that_is_never_found_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let (sender, phase) = watch::channel(Phase::Active);
        let (events, mut received) = vm_event_queue();
        let watching = tokio::spawn(watch(directory.path().join("none.pid"), phase, events));
        assert_eq!(received.recv().await, Some(VmEvent::QemuMissing));
        sender.send_replace(Phase::Gone);
        drop(sender);
        watching.await.unwrap();
        assert_eq!(received.recv().await, None);
    }

    #[tokio::test]
    async fn end_with_a_libvirt_event_is_not_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, pid_file) = spawn_process(directory.path());
        let (sender, phase) = watch::channel(Phase::Active);
        let (events, mut received) = vm_event_queue();
        let watching = tokio::spawn(watch(pid_file, phase, events));
        tokio::time::sleep(Duration::from_millis(50)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        sender.send_replace(Phase::Down);
        drop(sender);
        watching.await.unwrap();
        assert!(received.try_recv().is_none());
    }
}
