//! A file that is not complete yet, under a name that tells who writes it.
//!
//! ```text
//!   of(path) ──▶ [written as NAME.RUN-N.part] ──settle──▶ [complete, as NAME]
//!      │ parts of runs before this are removed    └─drop──▶ [gone]
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::{PlaceError, Placing, complete, failed};

const ENDING: &str = ".part";
/// A claim may hold any number of files; ours are looked for among so many.
const MOST_NAMES: usize = 10_000;
/// This run of the launcher. Process ids would not do: in a container each run has the same.
static RUN: LazyLock<u64> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or_default())
});

/// A file on its way into place. Dropped before it is settled, it is removed.
#[derive(Debug)]
pub(crate) struct Part {
    path: PathBuf,
    target: PathBuf,
    settled: bool,
}

impl Part {
    /// A part of the file at `target`, unlike any other's: a caller that gave up may have left a
    /// writer behind. What a launcher that died has left is removed.
    pub(crate) fn of(target: &Path) -> Self {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        sweep(target);
        let number = WRITERS.fetch_add(1, Ordering::Relaxed);
        Self {
            path: beside(target, &format!(".{:x}-{number:x}{ENDING}", *RUN)),
            target: target.to_owned(),
            settled: false,
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, for this process to write.
    pub(super) fn create(&self, mode: u32) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&self.path)
    }

    /// Gives it mode and owner, and at last its name.
    pub(crate) fn settle(mut self, placing: Placing) -> Result<(), PlaceError> {
        complete(&self.path, placing)?;
        fs::rename(&self.path, &self.target).map_err(failed("putting in place", &self.target))?;
        self.settled = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.settled {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn beside(target: &Path, ending: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Removes the parts of `target` that no run writes any more. Links are removed, never followed.
fn sweep(target: &Path) {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.take(MOST_NAMES).flatten() {
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

/// The run that wrote `part`, if that is a part of the file called `name`.
fn run_of(part: &OsStr, name: &OsStr) -> Option<u64> {
    let mut start: OsString = name.to_owned();
    start.push(".");
    let middle = part.to_str()?.strip_prefix(start.to_str()?)?;
    let (run, number) = middle.strip_suffix(ENDING)?.split_once('-')?;
    u64::from_str_radix(number, 16).ok()?;
    u64::from_str_radix(run, 16).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::super::tests::KEPT;
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
    fn what_a_dead_writer_left_goes_and_nothing_else() {
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
        let living = Part::of(&at("disk.img"));
        fs::write(living.path(), "being written").unwrap();
        let second = Part::of(&at("disk.img"));
        assert!(living.path().exists() && living.path() != second.path());
        drop(living);
        assert_eq!(names(directory.path()), stays);
        assert_eq!(fs::read(at("disk.img")).unwrap(), b"x");
    }

    #[test]
    fn a_part_ends_in_place_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("disk.img");
        let part = Part::of(&target);
        fs::write(part.path(), "complete").unwrap();
        part.settle(KEPT).unwrap();
        let missing = Part::of(&target);
        assert!(missing.settle(KEPT).is_err());
        assert_eq!(names(directory.path()), ["disk.img"]);
        assert_eq!(fs::read(&target).unwrap(), b"complete");
    }
}
