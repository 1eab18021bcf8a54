//! Watches the hooks directory with inotify.

use std::collections::BTreeSet;
use std::future::pending;
use std::path::Path;

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};

/// Size of the buffer for inotify events in bytes. Events beyond it are not needed, because one event triggers a scan.
const EVENT_BUFFER_BYTES: usize = 4096;

/// A watch on the hooks directory and its sub-directories. All VMs of a node share the inotify
/// instances of uid 107. If none is left, only the periodic scan finds changes.
pub(super) struct DirectoryWatch {
    stream: Option<EventStream<[u8; EVENT_BUFFER_BYTES]>>,
    watched: BTreeSet<String>,
}

impl DirectoryWatch {
    pub(super) fn new() -> Self {
        let stream =
            Inotify::init().and_then(|inotify| inotify.into_event_stream([0; EVENT_BUFFER_BYTES]));
        if let Err(error) = &stream {
            tracing::debug!(%error, "no inotify: hooks are looked for once a second");
        }
        Self {
            stream: stream.ok(),
            watched: BTreeSet::new(),
        }
    }

    /// Watches new directories. Returns whether there were any; then the caller must scan again.
    pub(super) fn watch_new(&mut self, hooks_dir: &Path, directories: &[String]) -> bool {
        let hooks_dir_itself = std::iter::once("");
        let mut added_any = false;
        for name in hooks_dir_itself.chain(directories.iter().map(String::as_str)) {
            if !self.watched.contains(name) && self.add(&hooks_dir.join(name)) {
                added_any = self.watched.insert(name.to_owned()) || added_any;
            }
        }
        added_any
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

    /// Waits for a change. Without inotify, waits forever.
    pub(super) async fn wait_for_change(&mut self) {
        match &mut self.stream {
            Some(stream) => match stream.next().await {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => self.stream = None,
            },
            None => pending().await,
        }
    }
}
