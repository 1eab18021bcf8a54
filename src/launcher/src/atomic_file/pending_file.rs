//! A file that is not complete yet, under a name that contains the writer's run.
//!
//! ```text
//!   new(path) ──▶ [written as NAME.RUN-N.part] ──commit──▶ [complete, as NAME]
//!      │ pending files of earlier runs are removed  └─drop──▶ [removed]
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::{AtomicFileError, FileAttrs, failed, set_attrs};

const SUFFIX: &str = ".part";
/// A volume may hold any number of files; at most this many are searched for pending files.
const MAX_ENTRIES: usize = 10_000;
/// This run of the launcher. A process id is not enough: in a container each run has the same.
static RUN: LazyLock<u64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or_default())
});

/// A file beside its target. It is removed if it is dropped before it is committed.
#[derive(Debug)]
pub(crate) struct PendingFile {
    path: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl PendingFile {
    /// A pending file for `target`, with a name of its own: a caller that gave up may have left a writer
    /// behind. Pending files of launchers before this one are removed.
    pub(crate) fn new(target: &Path) -> Self {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        remove_stale(target);
        let number = WRITERS.fetch_add(1, Ordering::Relaxed);
        Self {
            path: with_suffix(target, &format!(".{:x}-{number:x}{SUFFIX}", *RUN)),
            target: target.to_owned(),
            committed: false,
        }
    }

    /// The path to write to.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file for this process to write.
    pub(super) fn create(&self, mode: u32) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&self.path)
    }

    /// Sets mode and owner, then renames the file to its target.
    pub(crate) fn commit(mut self, attrs: FileAttrs) -> Result<(), AtomicFileError> {
        set_attrs(&self.path, attrs)?;
        fs::rename(&self.path, &self.target).map_err(failed("putting in place", &self.target))?;
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
    let mut name = target.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes pending files of `target` from earlier runs. Links are removed, never followed.
fn remove_stale(target: &Path) {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.take(MAX_ENTRIES).flatten() {
        if run_of(&entry.file_name(), name).is_none_or(|run| run == *RUN) {
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

/// The run that wrote `pending`, if that is a pending file of the file called `name`.
fn run_of(pending: &OsStr, name: &OsStr) -> Option<u64> {
    let mut start: OsString = name.to_owned();
    start.push(".");
    let middle = pending.to_str()?.strip_prefix(start.to_str()?)?;
    let (run, number) = middle.strip_suffix(SUFFIX)?.split_once('-')?;
    u64::from_str_radix(number, 16).ok()?;
    u64::from_str_radix(run, 16).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

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

    #[test]
    fn only_pending_files_of_earlier_runs_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let stays = [
            "disk.img",
            "disk.img.1-.part",
            "disk.img.1-1.part.bak",
            "disk.img.part",
            "disk.img.x-1.part",
            "other.img.1-1.part",
        ];
        for name in stays
            .iter()
            .chain(&["disk.img.1-0.part", "disk.img.1f-a.part"])
        {
            fs::write(at(name), "x").unwrap();
        }
        symlink(at("disk.img"), at("disk.img.2-0.part")).unwrap();
        let living = PendingFile::new(&at("disk.img"));
        fs::write(living.path(), "being written").unwrap();
        let second = PendingFile::new(&at("disk.img"));
        assert!(living.path().exists() && living.path() != second.path());
        drop(living);
        assert_eq!(names(directory.path()), stays);
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
