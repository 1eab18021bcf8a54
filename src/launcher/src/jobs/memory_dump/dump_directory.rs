//! The directory of a dump. It must exist. It contains only one dump, because its volume has space for one.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

use super::is_dump;
use crate::jobs::JobError;

/// Checks the directory, and removes earlier dumps from it. Blocking.
pub(super) fn prepare(directory: &Path) -> Result<(), JobError> {
    let unusable = |reason: io::Error| JobError::Directory {
        path: directory.to_owned(),
        reason: reason.to_string(),
    };
    if !fs::metadata(directory).map_err(unusable)?.is_dir() {
        return Err(unusable(io::ErrorKind::NotADirectory.into()));
    }
    // Checked first, so that the guest is not paused for a dump that cannot succeed.
    access(directory, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| unusable(error.into()))?;
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(reason = %error, directory = %directory.display(), "could not look for earlier memory dumps");
            return Ok(());
        }
    };
    for entry in entries.filter_map(Result::ok) {
        if let Err(error) = remove_dump(&entry) {
            tracing::warn!(reason = %error, path = %entry.path().display(), "could not remove an earlier memory dump");
        }
    }
    Ok(())
}

/// Removes the file if it is a dump.
fn remove_dump(entry: &fs::DirEntry) -> io::Result<()> {
    if is_dump(&entry.file_name().to_string_lossy()) && !entry.file_type()?.is_dir() {
        tracing::info!(path = %entry.path().display(), "removing an earlier memory dump");
        fs::remove_file(entry.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_earlier_dumps_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        for name in ["a.memory.dump", "b.memory.dump.partial", "disk.img"] {
            fs::write(path(name), "x").unwrap();
        }
        fs::create_dir(path("c.memory.dump")).unwrap();
        std::os::unix::fs::symlink(path("disk.img"), path("d.memory.dump")).unwrap();
        prepare(directory.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["c.memory.dump", "disk.img"]);
    }

    #[test]
    fn error_contains_the_path_of_a_missing_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [directory.path().join("none"), file] {
            let error = prepare(&path).unwrap_err().to_string();
            assert!(error.contains(&*path.to_string_lossy()), "{error}");
        }
    }
}
