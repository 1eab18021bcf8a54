//! A file that is not complete yet, with a temporary name that contains the id of the launcher's run.
//!
//! ```text
//!   new(path) ──▶ [written as NAME.RUN-N.part] ──commit──▶ [complete, as NAME]
//!      └ removes old pending files of other runs     └─drop──▶ [removed]
//! ```
//! Launchers on other nodes may write to the same volume, so a pending file of another run is removed only when nobody
//! has written to it for longer than any file takes. Of a name that leaves no room for the suffix, the pending file's
//! name has the beginning and a hash.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::{AtomicFileError, FileAttrs, io_error, set_attrs};

const PART_SUFFIX: &str = ".part";
/// Maximum number of directory entries that are searched for pending files: a volume may have any number of files.
const MAX_SEARCHED_ENTRIES: usize = 10_000;
/// A pending file that was not written to for this long belongs to a launcher that has ended: qemu-img may take 30 s.
const STALE_AFTER: Duration = Duration::from_secs(120);
/// The longest name of a file in Linux, in bytes, less the longest suffix.
const MAX_NAME_BYTES: usize = 255 - ".ffffffffffffffff-ffffffffffffffff.part".len();
/// A longer name is cut to this length, and followed by `~` and the hash of the whole name.
const CUT_NAME_BYTES: usize = MAX_NAME_BYTES - "~ffffffffffffffff".len();
/// The id of this run of the launcher: its start time in nanoseconds. A process id is not enough, since it is the same
/// for every run in a container.
static RUN_ID: LazyLock<u64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or_default())
});

/// A temporary name in the target's directory. The file is removed if this is dropped before it is committed.
#[derive(Debug)]
pub(crate) struct PendingFile {
    path: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl PendingFile {
    /// Reserves a temporary name for `target`. The name is unique, since the writer of an earlier pending file may
    /// still run after its caller has given up. Removes what earlier runs left.
    pub(crate) fn new(target: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        remove_stale(target);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            path: with_suffix(target, &format!(".{:x}-{number:x}{PART_SUFFIX}", *RUN_ID)),
            target: target.to_owned(),
            committed: false,
        }
    }

    /// The temporary path, to write to.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file and opens it for writing.
    pub(super) fn create(&self, mode: u32) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&self.path)
    }

    /// Sets mode and owner, then renames the file to the target.
    pub(crate) fn commit(mut self, attrs: FileAttrs) -> Result<(), AtomicFileError> {
        set_attrs(&self.path, attrs)?;
        fs::rename(&self.path, &self.target).map_err(io_error("putting in place", &self.target))?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn with_suffix(target: &Path, suffix: &str) -> PathBuf {
    let mut name = name_begin(target.file_name().unwrap_or_default());
    name.push(suffix);
    target.with_file_name(name)
}

/// What the names of the pending files of a file with this name begin with.
fn name_begin(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    // A name that no file can have is left to the file system to refuse.
    if bytes.len() <= MAX_NAME_BYTES || bytes.len() > 255 {
        return name.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let mut begin = bytes[..CUT_NAME_BYTES].to_vec();
    begin.extend(format!("~{:016x}", hasher.finish()).bytes());
    OsString::from_vec(begin)
}

/// Removes pending files of `target` that earlier runs have left, also if the target exists. Links are removed, never
/// followed.
pub(crate) fn remove_stale(target: &Path) {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.take(MAX_SEARCHED_ENTRIES).flatten() {
        let run = run_of(&entry.file_name(), &name_begin(name));
        if run.is_none_or(|run| run == *RUN_ID) || !is_stale(&entry) {
            continue;
        }
        let path = entry.path();
        match fs::remove_file(&path) {
            Ok(()) => {
                tracing::info!(path = %path.display(), "removed what a launcher before left half-written")
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), reason = %error, "a half-written file stays")
            }
        }
    }
}

/// Whether nobody has written to the file for long.
fn is_stale(entry: &DirEntry) -> bool {
    let modified = entry.metadata().and_then(|metadata| metadata.modified());
    // A time in the future, by another node's clock, is recent.
    let age = modified.map(|modified| modified.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age > STALE_AFTER)
}

/// The id of the run that made `pending`, if `pending` is the name of a pending file for a file whose pending files
/// begin with `name_begin`.
fn run_of(pending: &OsStr, name_begin: &OsStr) -> Option<u64> {
    let rest = pending.as_bytes().strip_prefix(name_begin.as_bytes())?;
    let middle = std::str::from_utf8(rest).ok()?.strip_prefix('.')?;
    let (run, number) = middle.strip_suffix(PART_SUFFIX)?.split_once('-')?;
    u64::from_str_radix(number, 16).ok()?;
    u64::from_str_radix(run, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::super::tests::DURABLE;
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn make_old(path: &Path) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }

    #[test]
    fn pending_file_that_another_launcher_writes_is_kept_until_it_is_old() {
        for name in ["disk.img".to_owned(), "n".repeat(250)] {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path().join(name);
            let mut other = PendingFile::new(&target);
            // Another run of a launcher.
            other.path = with_suffix(&target, ".1f-0.part");
            fs::write(other.path(), "half").unwrap();
            drop(PendingFile::new(&target));
            assert!(other.path().exists());
            make_old(other.path());
            remove_stale(&target);
            assert!(!other.path().exists());
        }
    }

    #[test]
    fn only_pending_files_of_earlier_runs_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let kept = [
            "disk.img",
            "disk.img.1-.part",
            "disk.img.1-1.part.bak",
            "disk.img.part",
            "disk.img.x-1.part",
            "other.img.1-1.part",
        ];
        for name in kept
            .iter()
            .chain(&["disk.img.1-0.part", "disk.img.1f-a.part"])
        {
            fs::write(at(name), "x").unwrap();
            make_old(&at(name));
        }
        let current = PendingFile::new(&at("disk.img"));
        fs::write(current.path(), "being written").unwrap();
        let second = PendingFile::new(&at("disk.img"));
        assert!(current.path().exists() && current.path() != second.path());
        drop(current);
        assert_eq!(names(directory.path()), kept);
        assert_eq!(fs::read(at("disk.img")).unwrap(), b"x");
    }

    #[test]
    fn commit_renames_and_drop_removes() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("disk.img");
        let pending = PendingFile::new(&target);
        fs::write(pending.path(), "complete").unwrap();
        pending.commit(DURABLE).unwrap();
        let missing = PendingFile::new(&target);
        assert!(missing.commit(DURABLE).is_err());
        assert_eq!(names(directory.path()), ["disk.img"]);
        assert_eq!(fs::read(&target).unwrap(), b"complete");
    }
}
