//! Watches the hooks directory with inotify.

use std::collections::BTreeSet;
use std::future::pending;
use std::path::Path;

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};

/// Bytes for events. If more arrive, one is enough to trigger a scan.
const BUFFER: usize = 4096;

/// Watches the hooks directory and its sub-directories. All VMs of a node share the inotify
/// instances of uid 107, so there may be none left; then only the periodic scan finds changes.
pub(super) struct DirectoryWatch {
    stream: Option<EventStream<[u8; BUFFER]>>,
    watched: BTreeSet<String>,
}

impl DirectoryWatch {
    pub(super) fn new() -> Self {
        let stream = Inotify::init().and_then(|inotify| inotify.into_event_stream([0; BUFFER]));
        if let Err(error) = &stream {
            tracing::debug!(%error, "no inotify: hooks are looked for once a second");
        }
        Self {
            stream: stream.ok(),
            watched: BTreeSet::new(),
        }
    }

    /// Watches new directories; true if there were any, and the caller must scan again.
    pub(super) fn watch_new(&mut self, hooks_dir: &Path, directories: &[String]) -> bool {
        let root = std::iter::once("");
        let mut more = false;
        for name in root.chain(directories.iter().map(String::as_str)) {
            if !self.watched.contains(name) && self.add(&hooks_dir.join(name)) {
                more = self.watched.insert(name.to_owned()) || more;
            }
        }
        more
    }

    fn add(&self, path: &Path) -> bool {
        let mask = WatchMask::CREATE
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::CLOSE_WRITE
            | WatchMask::ATTRIB
            | WatchMask::DELETE
            | WatchMask::ONLYDIR;
        self.stream
            .as_ref()
            .is_some_and(|stream| stream.watches().add(path, mask).is_ok())
    }

    /// Waits for a change; forever without inotify.
    pub(super) async fn changed(&mut self) {
        match &mut self.stream {
            Some(stream) => match stream.next().await {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => self.stream = None,
            },
            None => pending().await,
        }
    }
}
