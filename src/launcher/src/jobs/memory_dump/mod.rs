//! The rules of memory dumps, which are pure; [`memory_dump_task`] carries a dump out.
//!
//! virt-handler repeats its request until a notification says that the dump of that file name has ended. So a request
//! for the name of the last dump has no effect, whether that dump succeeded or failed.

mod dump_directory;
mod io_helper;
mod memory_dump_task;

use std::path::{Component, Path};

use kubevirt_api::domain_metadata::MemoryDump;

use super::JobError;
pub(super) use memory_dump_task::run;

/// The longest path and file name that Linux accepts, in bytes.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
/// What the names of dumps contain.
const MARK: &str = "memory.dump";

/// A path that no memory can be dumped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is empty, relative, ends in a directory, or has `.` or `..` in it.
    #[error("the path of a memory dump is to be absolute, name a file and contain no '..'")]
    NotAFile,
    /// It is too long, or contains a NUL byte.
    #[error(
        "the path of a memory dump has at most {LONGEST_PATH} bytes, its file name at most \
         {LONGEST_NAME}, and no NUL byte"
    )]
    Unusable,
}

/// A memory dump to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryDumpRequest {
    path: String,
    name: String,
}

impl MemoryDumpRequest {
    /// A dump to that path, which is virt-handler's.
    ///
    /// # Errors
    /// [`PathError`] when no file can have that path.
    pub fn new(path: &str) -> Result<MemoryDumpRequest, PathError> {
        if path.len() > LONGEST_PATH || path.contains('\0') {
            return Err(PathError::Unusable);
        }
        let mut components = Path::new(path).components();
        let Some(Component::Normal(name)) = components.next_back() else {
            return Err(PathError::NotAFile);
        };
        let is_absolute = components.next() == Some(Component::RootDir);
        let is_plain = components.all(|part| matches!(part, Component::Normal(_)));
        // Path forgets "/." and "/" at the end; libvirt does not.
        let name = name.to_string_lossy().into_owned();
        if !is_absolute || !is_plain || !path.ends_with(&format!("/{name}")) {
            return Err(PathError::NotAFile);
        }
        if name.len() > LONGEST_NAME {
            return Err(PathError::Unusable);
        }
        Ok(MemoryDumpRequest {
            path: path.to_owned(),
            name,
        })
    }

    /// The file to be made.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The directory of the dump.
    pub fn directory(&self) -> &Path {
        Path::new(&self.path).parent().unwrap_or(Path::new("/"))
    }

    /// Whether the last dump had the same file name.
    pub(super) fn is_recorded_in(&self, last: Option<&MemoryDump>) -> bool {
        last.is_some_and(|last| last.file_name == self.name)
    }
}

/// The record of a dump that begins.
pub(super) fn begin(request: &MemoryDumpRequest, now: String) -> MemoryDump {
    MemoryDump {
        file_name: request.name.clone(),
        start_timestamp: Some(now),
        ..MemoryDump::default()
    }
}

/// The record of a dump that has ended. A failed dump is also complete: virt-handler waits for completion.
pub(super) fn complete(begun: MemoryDump, now: String, result: Result<(), JobError>) -> MemoryDump {
    let failure_reason = result
        .err()
        .map(|error| format!("Domain memory dump failed: {error}"));
    MemoryDump {
        end_timestamp: Some(now),
        completed: true,
        failed: failure_reason.is_some(),
        failure_reason: failure_reason.unwrap_or_default(),
        ..begun
    }
}

/// Whether a file of that name is a dump, made earlier.
fn is_dump(name: &str) -> bool {
    name.contains(MARK)
}

#[cfg(test)]
mod tests;
