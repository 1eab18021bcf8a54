//! Watches QEMU's process through its pid file: libvirt sends no event for QEMU's end when libvirt's daemon has ended
//! too. Nor does it when it gives up a domain that it receives, and then the process may be gone before it is found.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::manager::Phase;
use crate::qemu_process::QemuProcess;
use crate::vm_events::VmEvent;

/// The pid file is there before libvirt says that the domain runs; a slow disk may delay it.
const POLL: Duration = Duration::from_millis(100);
/// After this time without a process the domain is looked at again, and then each time after twice as long.
const MISSING: Duration = Duration::from_secs(2);
/// libvirt has this long to send its own event of the end, which has the reason.
const LIBVIRT_EVENT_TIMEOUT: Duration = Duration::from_millis(800);

/// Watches for as long as the launcher lives, through repeated starts.
pub(crate) async fn watch(
    pid_file: PathBuf,
    mut state: watch::Receiver<Phase>,
    events: mpsc::UnboundedSender<VmEvent>,
) {
    while state
        .wait_for(|state| *state == Phase::Active)
        .await
        .is_ok()
    {
        if let Some(process) = find(&pid_file, &state, &events).await {
            let _ = process.wait_for_exit().await;
            tracing::info!(pid = process.pid(), "QEMU has ended");
        }
        let known = state.wait_for(|state| *state != Phase::Active);
        let is_untold = tokio::time::timeout(LIBVIRT_EVENT_TIMEOUT, known)
            .await
            .is_err();
        // The VM may have been started again meanwhile.
        if is_untold && !is_running(&pid_file).await {
            tracing::warn!("QEMU has ended and libvirt does not say so");
            if events.send(VmEvent::QemuEnded).is_err() {
                return;
            }
            let _ = state.changed().await;
        }
    }
}

/// Whether the pid file names a process that has not ended. One that libvirt's daemon has not reaped has.
async fn is_running(pid_file: &Path) -> bool {
    match QemuProcess::open(pid_file) {
        Ok(process) => !process.exits_within(POLL).await,
        Err(_) => false,
    }
}

async fn find(
    pid_file: &Path,
    state: &watch::Receiver<Phase>,
    events: &mpsc::UnboundedSender<VmEvent>,
) -> Option<QemuProcess> {
    let (mut since, mut patience) = (Instant::now(), MISSING);
    while *state.borrow() == Phase::Active {
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
        if since.elapsed() >= patience {
            // Fails only when the observer is gone.
            let _ = events.send(VmEvent::QemuMissing);
            (since, patience) = (Instant::now(), patience * 2);
        }
        tokio::time::sleep(POLL).await;
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Child, Command};

    use super::*;
    use crate::qemu_process::terminate;

    fn sleeper(directory: &Path) -> (Child, PathBuf) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid_file = directory.join("default_vm1.pid");
        std::fs::write(&pid_file, child.id().to_string()).unwrap();
        (child, pid_file)
    }

    #[tokio::test]
    async fn end_without_a_libvirt_event_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, pid_file) = sleeper(directory.path());
        let (state, phase) = watch::channel(Phase::Active);
        let (events, mut received) = mpsc::unbounded_channel();
        tokio::spawn(watch(pid_file.clone(), phase, events));
        tokio::time::sleep(Duration::from_millis(50)).await;
        terminate(&pid_file).unwrap();
        child.wait().unwrap();
        let event = tokio::time::timeout(LIBVIRT_EVENT_TIMEOUT * 2, received.recv())
            .await
            .unwrap();
        assert_eq!(event, Some(VmEvent::QemuEnded));
        drop(state);
    }

    #[tokio::test]
    async fn process_that_is_never_found_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let (state, phase) = watch::channel(Phase::Active);
        let (events, mut received) = mpsc::unbounded_channel();
        let watching = tokio::spawn(watch(directory.path().join("none.pid"), phase, events));
        assert_eq!(received.recv().await, Some(VmEvent::QemuMissing));
        state.send_replace(Phase::Gone);
        drop(state);
        watching.await.unwrap();
        assert_eq!(received.recv().await, None);
    }

    #[tokio::test]
    async fn end_with_a_libvirt_event_is_not_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, pid_file) = sleeper(directory.path());
        let (state, phase) = watch::channel(Phase::Active);
        let (events, mut received) = mpsc::unbounded_channel();
        let watching = tokio::spawn(watch(pid_file, phase, events));
        tokio::time::sleep(Duration::from_millis(50)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        state.send_replace(Phase::Down);
        drop(state);
        watching.await.unwrap();
        assert!(received.try_recv().is_err());
    }
}
