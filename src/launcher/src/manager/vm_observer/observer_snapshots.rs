//! Reads the domain from libvirt for the observer, in limited time.

use std::time::Duration;

use super::{Observer, ObserverHistory};
use crate::libvirt_client::{CallError, DomainSnapshot};
use crate::vm_events::VmEvent;

/// Timeout of a snapshot, which is three quick calls of libvirt. It is short because virt-handler must be notified of a
/// shutdown in time, even if the daemon hangs.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a snapshot after QEMU has exited without an event from libvirt: the daemon most likely hangs.
const SNAPSHOT_TIMEOUT_AFTER_EXIT: Duration = Duration::from_millis(250);

impl Observer {
    /// The domain after an event. If libvirt gives no answer, the domain as last read where that suffices for the
    /// event, else `None`.
    pub(super) async fn snapshot_after(
        &self,
        event: &VmEvent,
        history: &mut ObserverHistory,
    ) -> Option<DomainSnapshot> {
        let has_exited = *event == VmEvent::QemuExited;
        let timeout = if has_exited {
            SNAPSHOT_TIMEOUT_AFTER_EXIT
        } else {
            SNAPSHOT_TIMEOUT
        };
        let snapshot = self.snapshot(timeout).await;
        history.last_read_failed = snapshot.is_err();
        match snapshot {
            Ok(snapshot) => Some(snapshot),
            Err(error) if has_exited => {
                tracing::warn!(reason = error, "libvirt cannot be asked how QEMU ended");
                let spec = history.spec()?;
                Some(DomainSnapshot::shut_off(spec, history.end.reason()))
            }
            Err(error)
                if matches!(
                    event,
                    VmEvent::Metadata | VmEvent::BackupEnded | VmEvent::GuestInfo
                ) =>
            {
                tracing::warn!(reason = error, "the domain is reported as it was read last");
                history.last_snapshot.clone()
            }
            Err(error) => {
                tracing::error!(reason = error, "could not read the domain after an event");
                None
            }
        }
    }

    async fn snapshot(&self, timeout: Duration) -> Result<DomainSnapshot, String> {
        let defining = tokio::time::timeout(timeout, self.defining.lock());
        let _defining = defining.await.map_err(|error| error.to_string())?;
        let snapshot = self.client.snapshot(timeout).await;
        snapshot.map_err(|error| error.to_string())
    }
}

/// The answer of calls that notifications wait for, or an error after [`SNAPSHOT_TIMEOUT`].
pub(super) async fn with_snapshot_timeout<T>(
    calls: impl Future<Output = Result<T, CallError>>,
) -> Result<T, String> {
    match tokio::time::timeout(SNAPSHOT_TIMEOUT, calls).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "libvirt gave no answer within {SNAPSHOT_TIMEOUT:?}"
        )),
    }
}
