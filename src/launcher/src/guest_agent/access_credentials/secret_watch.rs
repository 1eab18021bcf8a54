//! Waits for changes of mounted secrets.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};
use tokio::time::timeout;

/// Size of the buffer for inotify events. It holds a burst of events, whose content does not matter.
const EVENT_BUFFER_BYTES: usize = 4096;
/// How often secrets are read when inotify is not available: all VMs of a node share the inotify instances of uid 107,
/// and there may be none left. KubeVirt reads secrets at the same interval.
const RESCAN_INTERVAL: Duration = Duration::from_secs(15);
/// The kubelet changes a secret in several steps. The change is complete when no step has followed for this long.
const QUIET_PERIOD: Duration = Duration::from_millis(500);

/// Watches the directories of secrets with inotify; without inotify, every wait ends after [`RESCAN_INTERVAL`].
pub(super) struct SecretWatch {
    stream: Option<EventStream<[u8; EVENT_BUFFER_BYTES]>>,
}

impl SecretWatch {
    pub(super) fn new(directories: &[PathBuf]) -> SecretWatch {
        let stream = Inotify::init().and_then(|inotify| {
            let stream = inotify.into_event_stream([0; EVENT_BUFFER_BYTES])?;
            let mask = WatchMask::CREATE
                | WatchMask::MOVED_TO
                | WatchMask::CLOSE_WRITE
                | WatchMask::DELETE
                | WatchMask::ONLYDIR;
            for directory in directories {
                stream.watches().add(directory, mask)?;
            }
            Ok(stream)
        });
        if let Err(error) = &stream {
            tracing::debug!(%error, "no inotify: access credentials are read every {RESCAN_INTERVAL:?}");
        }
        SecretWatch {
            stream: stream.ok(),
        }
    }

    /// Waits until a change has begun and is complete; false when none has begun within `limit`.
    pub(super) async fn changed_within(&mut self, limit: Duration) -> bool {
        let Some(stream) = &mut self.stream else {
            tokio::time::sleep(limit.min(RESCAN_INTERVAL)).await;
            return false;
        };
        match timeout(limit, stream.next()).await {
            Ok(Some(Ok(_))) => {
                // The wait has a limit, for a secret that changes all the time.
                let _ = timeout(RESCAN_INTERVAL, until_quiet(stream)).await;
                true
            }
            Ok(Some(Err(_)) | None) => {
                self.stream = None;
                false
            }
            Err(_) => false,
        }
    }
}

/// Waits until no event has come for [`QUIET_PERIOD`].
async fn until_quiet(stream: &mut EventStream<[u8; EVENT_BUFFER_BYTES]>) {
    while let Ok(Some(Ok(_))) = timeout(QUIET_PERIOD, stream.next()).await {}
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test]
    async fn secret_replaced_by_the_kubelet_is_one_change() {
        let mount = tempfile::tempdir().unwrap();
        symlink("..first", mount.path().join("..data")).unwrap();
        let mut watch = SecretWatch::new(&[mount.path().to_owned()]);
        symlink("..second", mount.path().join("..data_tmp")).unwrap();
        fs::rename(mount.path().join("..data_tmp"), mount.path().join("..data")).unwrap();
        assert!(watch.changed_within(Duration::from_secs(60)).await);
        let repeated = watch.changed_within(Duration::from_millis(1)).await;
        assert!(!repeated, "the steps of one change are one change");
    }

    #[tokio::test]
    async fn directory_that_cannot_be_watched_is_rescanned() {
        let mut watch = SecretWatch::new(&["/nonexistent/secret".into()]);
        assert!(!watch.changed_within(Duration::from_millis(1)).await);
    }
}
