//! Being told when secrets change.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};
use tokio::time::timeout;

/// Enough for a burst; more events than fit mean no more than "look again".
const BUFFER: usize = 4096;
/// How often to look where nobody can tell of changes. uid 107's inotify instances are shared by every
/// VM of a node, so there may be none to be had. KubeVirt looks as often.
const RESCAN: Duration = Duration::from_secs(15);
/// The kubelet changes a secret in several steps; after the last one it is quiet for so long.
const SETTLED: Duration = Duration::from_millis(500);

/// Watches the directories of secrets.
pub(super) struct Watch {
    stream: Option<EventStream<[u8; BUFFER]>>,
}

impl Watch {
    pub(super) fn new(directories: &[PathBuf]) -> Watch {
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
        Watch {
            stream: stream.ok(),
        }
    }

    /// Waits for a change, at most that long, and for its end; whether one came.
    pub(super) async fn changed_within(&mut self, patience: Duration) -> bool {
        let Some(stream) = &mut self.stream else {
            tokio::time::sleep(patience.min(RESCAN)).await;
            return false;
        };
        match timeout(patience, stream.next()).await {
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
    while let Ok(Some(Ok(_))) = timeout(SETTLED, stream.next()).await {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test]
    async fn a_secret_swapped_as_the_kubelet_does_is_a_change() {
        let mount = tempfile::tempdir().unwrap();
        symlink("..first", mount.path().join("..data")).unwrap();
        let mut watch = Watch::new(&[mount.path().to_owned()]);
        symlink("..second", mount.path().join("..data_tmp")).unwrap();
        fs::rename(mount.path().join("..data_tmp"), mount.path().join("..data")).unwrap();
        assert!(watch.changed_within(Duration::from_secs(60)).await);
        let again = watch.changed_within(Duration::from_millis(1)).await;
        assert!(!again, "the steps of one change are one change");
    }

    #[tokio::test]
    async fn what_cannot_be_watched_is_looked_at() {
        let mut watch = Watch::new(&["/nonexistent/secret".into()]);
        assert!(!watch.changed_within(Duration::from_millis(1)).await);
    }
}
