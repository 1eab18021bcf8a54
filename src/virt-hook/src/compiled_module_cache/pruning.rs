//! Removes files that killed runs and other versions have left, and the least recently used entries.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::CompiledModuleCache;
use super::cache_files::PARTIAL_PREFIX;

/// The prefix of the directories of all versions.
const VERSION_PREFIX: &str = "compiled-";
/// The longest time that writing a file takes.
const MAX_WRITE_TIME: Duration = Duration::from_secs(3600);

impl CompiledModuleCache {
    /// Removes what killed runs and other versions have left, and then the entries that were not used for the longest
    /// time.
    pub(super) fn prune(&self) -> io::Result<()> {
        for leftover in self.partial_files()? {
            remove(&leftover)?;
        }
        for directory in self.other_versions()? {
            fs::remove_dir_all(directory)?;
        }
        let mut entries = Vec::new();
        for (_, path) in self.entries()? {
            let metadata = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            entries.push((metadata.modified()?, metadata.len(), path));
        }
        entries.sort();
        let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in entries {
            if bytes <= self.max_bytes {
                break;
            }
            remove(&path)?;
            bytes -= size;
        }
        Ok(())
    }

    /// Partial files that are so old that their writer must have been killed.
    fn partial_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut partial_files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_partial = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(PARTIAL_PREFIX));
            // Fails if the file has been completed, and thereby renamed, in the meantime.
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            let age = age.ok().and_then(|modified| modified.elapsed().ok());
            if is_partial && age.is_some_and(|age| age > MAX_WRITE_TIME) {
                partial_files.push(entry.path());
            }
        }
        Ok(partial_files)
    }

    /// The directories of other versions beside this one: nothing else prunes them once their program is gone.
    fn other_versions(&self) -> io::Result<Vec<PathBuf>> {
        let is_of_version = |path: &Path| {
            let name = path.file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| name.starts_with(VERSION_PREFIX))
        };
        let Some(base) = self.dir.parent().filter(|_| is_of_version(&self.dir)) else {
            return Ok(Vec::new());
        };
        let mut directories = Vec::new();
        for entry in fs::read_dir(base)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() && is_of_version(&path) && path != self.dir {
                directories.push(path);
            }
        }
        Ok(directories)
    }
}

/// Removes a file, unless another process has removed it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
