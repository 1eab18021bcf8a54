//! The file of one hook in the hooks directory: its location, its kind, and the version of its content.

use std::time::{Duration, SystemTime};

use cap_std::fs::{Metadata, MetadataExt};

/// A hook's location: a sub-directory of the hooks directory, and a file in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HookId {
    pub(crate) directory: String,
    pub(crate) file: String,
}

impl std::fmt::Display for HookId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.directory, self.file)
    }
}

/// Whether a file is the socket of a sidecar or a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookFileKind {
    Socket,
    Module,
}

/// Identifies one version of a hook's file, its `hook.yaml` and its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileStamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified_ns: i128,
    /// Inode, size and modification time of the `hook.yaml` beside the file.
    pub(super) settings: Option<(u64, u64, i128)>,
    /// Inode, size and modification time of the file's signature.
    pub(super) signature: Option<(u64, u64, i128)>,
}

/// A socket or module in the hooks directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookFile {
    pub(super) id: HookId,
    pub(super) kind: HookFileKind,
    pub(super) stamp: FileStamp,
    /// Time since the last change of the file, its `hook.yaml` or its signature.
    pub(super) age: Duration,
    /// Whether the file is on a read-only mount.
    pub(super) read_only: bool,
}

pub(super) fn file_stamp(metadata: &Metadata) -> FileStamp {
    FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified_ns: modified_ns(metadata),
        settings: None,
        signature: None,
    }
}

pub(super) fn file_version(metadata: &Metadata) -> (u64, u64, i128) {
    (metadata.ino(), metadata.size(), modified_ns(metadata))
}

fn modified_ns(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

pub(super) fn age(metadata: &Metadata) -> Duration {
    let modified = metadata.modified().map(cap_std::time::SystemTime::into_std);
    // If the clock went backwards, the file counts as new, and an unusable file is reported later.
    modified
        .ok()
        .and_then(|time| SystemTime::now().duration_since(time).ok())
        .unwrap_or_default()
}
