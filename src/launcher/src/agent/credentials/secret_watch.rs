//! Waits for changes of mounted secrets.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};
use tokio::time::timeout;

/// Enough for a burst of events; their content does not matter.
const BUFFER: usize = 4096;
/// How often secrets are read without inotify. All VMs of a node share uid 107's inotify instances, so there
/// may be none left. KubeVirt reads secrets at the same interval.
const RESCAN: Duration = Duration::from_secs(15);
/// The kubelet changes a secret in several steps; without a further step for this long, the change is complete.
const QUIET_PERIOD: Duration = Duration::from_millis(500);

/// Watches the directories of secrets.
pub(super) struct SecretWatch {
    stream: Option<EventStream<[u8; BUFFER]>>,
}

impl SecretWatch {
    pub(super) fn new(directories: &[PathBuf]) -> SecretWatch {
        let stream = Inotify::init().and_then(|inotify| {
            let stream = inotify.into_event_stream([0; BUFFER])?;
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
            tracing::debug!(%error, "no inotify: access credentials are read every {RESCAN:?}");
        }
        SecretWatch {
            stream: stream.ok(),
        }
    }

    /// Waits for a change and its end, at most `limit`; whether there was one.
    pub(super) async fn changed_within(&mut self, limit: Duration) -> bool {
        let Some(stream) = &mut self.stream else {
            tokio::time::sleep(limit.min(RESCAN)).await;
            return false;
        };
        match timeout(limit, stream.next()).await {
            Ok(Some(Ok(_))) => {
                // Whoever changes a secret all the time is not waited for.
                let _ = timeout(RESCAN, quiet(stream)).await;
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

async fn quiet(stream: &mut EventStream<[u8; BUFFER]>) {
    while let Ok(Some(Ok(_))) = timeout(QUIET_PERIOD, stream.next()).await {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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
