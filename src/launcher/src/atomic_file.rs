//! Files that appear under their name only when they are complete.
//!
//! A file is written as a [`PendingFile`] in the target's directory, given to QEMU's user and renamed. A launcher that
//! ends before the rename leaves a pending file, which a later launcher removes, and never a truncated file under the
//! target's name.

use std::ffi::{OsStr, OsString};
use std::fs::{DirEntry, File, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use crate::paths::QEMU_USER;
use crate::untrusted_file::open_without_links;

/// A file could not be written, or its mode or owner could not be set.
#[derive(Debug, thiserror::Error)]
pub enum AtomicFileError {
    /// A file system call failed.
    #[error("{what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The owner could not be changed to QEMU's user.
    #[error("giving {path} to uid {QEMU_USER}: {source}")]
    Chown {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}

/// The mode and durability of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileAttrs {
    /// The permission bits.
    pub(crate) mode: u32,
    /// Whether the file is synced to disk before the rename. This is needed for a file that a later start uses, and not
    /// for a file that every start replaces.
    pub(crate) durable: bool,
}

/// Writes a file, and replaces an existing one; creates its directory.
///
/// # Errors
/// [`AtomicFileError`], naming the file.
pub(crate) fn write(
    path: &Path,
    attrs: FileAttrs,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), AtomicFileError> {
    create_parent(path)?;
    let pending = PendingFile::new(path);
    let written = pending
        .create(attrs.mode)
        .and_then(|mut file| write(&mut file));
    written.map_err(io_error("writing", path))?;
    pending.commit(attrs)
}

/// Sets mode and owner of a complete file, and syncs it if it is to be durable. A link in place of the file is an error:
/// whoever can write to a volume must not choose the file that a launcher of root changes.
fn set_attrs(path: &Path, attrs: FileAttrs) -> Result<(), AtomicFileError> {
    let setting = "setting the mode of";
    let file = open_without_links(path).map_err(io_error(setting, path))?;
    file.set_permissions(Permissions::from_mode(attrs.mode))
        .map_err(io_error(setting, path))?;
    chown_file_to_qemu(&file, path)?;
    if attrs.durable {
        file.sync_all().map_err(io_error("writing", path))?;
    }
    Ok(())
}

/// Creates the directory of a file.
pub(crate) fn create_parent(path: &Path) -> Result<(), AtomicFileError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(io_error("creating the directory", parent))
}

/// Makes QEMU's user the owner of a file. Does nothing unless the launcher is root: otherwise it runs as QEMU's user.
pub(crate) fn chown_to_qemu(path: &Path) -> Result<(), AtomicFileError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let changed = std::os::unix::fs::lchown(path, Some(QEMU_USER), Some(QEMU_USER));
    changed.map_err(|source| AtomicFileError::Chown {
        path: path.to_owned(),
        source,
    })
}

/// As [`chown_to_qemu`], for an open file or directory.
pub(crate) fn chown_file_to_qemu(file: &File, path: &Path) -> Result<(), AtomicFileError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let changed = std::os::unix::fs::fchown(file, Some(QEMU_USER), Some(QEMU_USER));
    changed.map_err(|source| AtomicFileError::Chown {
        path: path.to_owned(),
        source,
    })
}

/// Makes the error of a file system call.
pub(crate) fn io_error(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> AtomicFileError + use<> {
    let path = path.to_owned();
    move |source| AtomicFileError::Io { what, path, source }
}

// A file that is not complete yet, with a temporary name that contains the id of the launcher's run.
//
// ```text
//   new(path) ──▶ [written as NAME.RUN-N.part] ──commit──▶ [complete, as NAME]
//      └ removes old pending files of other runs     └─drop──▶ [removed]
// ```
// Launchers on other nodes may write to the same volume, so a pending file of another run is removed only when nobody
// has written to it for longer than any file takes. Of a name that leaves no room for the suffix, the pending file's
// name has the beginning and a hash.

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
    fn create(&self, mode: u32) -> io::Result<File> {
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
pub(crate) mod tests {
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// The user who owns a file of this process after [`chown_to_qemu`].
    pub(crate) fn expected_owner() -> u32 {
        match rustix::process::geteuid() {
            root if root.is_root() => QEMU_USER,
            user => user.as_raw(),
        }
    }

    pub(super) const DURABLE: FileAttrs = FileAttrs {
        mode: 0o640,
        durable: true,
    };

    #[test]
    fn failed_write_leaves_the_old_file_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/file");
        let replace = |text: &'static str| {
            write(&path, DURABLE, |file| file.write_all(text.as_bytes())).unwrap();
        };
        replace("first and longer");
        replace("second");
        let half = write(&path, DURABLE, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        let error = half.unwrap_err().to_string();
        assert!(
            error.starts_with("writing /") && error.ends_with("below/file: disk full"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
        assert_eq!(metadata.uid(), expected_owner());
    }

    /// The longest name that a file can have in Linux, and names whose pending files differ only at their end.
    #[test]
    fn file_with_the_longest_name_is_written() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["n".repeat(255), "n".repeat(254), "ü".repeat(127)] {
            let path = directory.path().join(&name);
            write(&path, DURABLE, |file| file.write_all(name.as_bytes())).unwrap();
            assert_eq!(fs::read(&path).unwrap(), name.as_bytes());
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
        let too_long = directory.path().join("n".repeat(256));
        let error = write(&too_long, DURABLE, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("File name too long"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[test]
    fn mode_and_owner_are_not_set_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("file"),
            directory.path().join("other"),
        );
        fs::write(&other, "untouched").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        let before = fs::metadata(&other).unwrap();
        let error = write(&path, DURABLE, |_| {
            // Somebody who can write to the directory replaces the pending file.
            let pending = fs::read_dir(directory.path()).unwrap().find_map(|entry| {
                let path = entry.unwrap().path();
                path.to_str().unwrap().ends_with(".part").then_some(path)
            });
            let pending = pending.unwrap();
            fs::remove_file(&pending)?;
            symlink(&other, &pending)
        });
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("setting the mode of /"), "{error}");
        let after = fs::metadata(&other).unwrap();
        assert_eq!(
            (after.permissions(), after.uid()),
            (before.permissions(), before.uid())
        );
        assert!(!path.exists());
    }

    #[test]
    fn symlink_at_the_target_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("file"),
            directory.path().join("other"),
        );
        fs::write(&other, "untouched").unwrap();
        symlink(&other, &path).unwrap();
        write(&path, DURABLE, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"untouched");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

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
