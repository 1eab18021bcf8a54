//! Memory dumps: the request and the record, which are pure; [`memory_dump_task`] makes a dump.
//!
//! virt-handler repeats its request until a notification says that the dump with that file name has ended. A request
//! for the file name of the last dump therefore has no effect, whether that dump succeeded or failed.

mod dump_directory;
mod libvirt_iohelper;
mod memory_dump_task;

use std::path::{Component, Path};

use kubevirt_api::domain_metadata::MemoryDump;

use super::JobError;
pub(super) use memory_dump_task::run;

/// Maximum length of a path, and of a file name, that Linux accepts, in bytes.
const MAX_PATH_BYTES: usize = 4095;
const MAX_NAME_BYTES: usize = 255;
/// The part by which the file names of dumps are recognized.
const DUMP_NAME_PART: &str = "memory.dump";

/// Why a path cannot be that of a memory dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DumpPathError {
    /// The path is empty, relative, ends in a directory, or contains `.` or `..`.
    #[error("the path of a memory dump is to be absolute, name a file and contain no '..'")]
    NotAFile,
    /// The path or its file name is too long, or the path contains a NUL byte.
    #[error(
        "the path of a memory dump has at most {MAX_PATH_BYTES} bytes, its file name at most \
         {MAX_NAME_BYTES}, and no NUL byte"
    )]
    Unusable,
}

/// A request for a memory dump, validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryDumpRequest {
    path: String,
    name: String,
}

impl MemoryDumpRequest {
    /// A request for a dump to this path, which virt-handler chooses.
    ///
    /// # Errors
    /// [`DumpPathError`] if no file can have this path.
    pub fn new(path: &str) -> Result<MemoryDumpRequest, DumpPathError> {
        if path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(DumpPathError::Unusable);
        }
        let mut components = Path::new(path).components();
        let Some(Component::Normal(name)) = components.next_back() else {
            return Err(DumpPathError::NotAFile);
        };
        let is_absolute = components.next() == Some(Component::RootDir);
        let is_plain = components.all(|part| matches!(part, Component::Normal(_)));
        // `Path` ignores "/." and "/" at the end; libvirt does not.
        let name = name.to_string_lossy().into_owned();
        if !is_absolute || !is_plain || !path.ends_with(&format!("/{name}")) {
            return Err(DumpPathError::NotAFile);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(DumpPathError::Unusable);
        }
        Ok(MemoryDumpRequest {
            path: path.to_owned(),
            name,
        })
    }

    /// The path of the dump's file.
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
pub(super) fn complete(
    started_record: MemoryDump,
    now: String,
    result: Result<(), JobError>,
) -> MemoryDump {
    let failure_reason = result
        .err()
        .map(|error| format!("Domain memory dump failed: {error}"));
    MemoryDump {
        end_timestamp: Some(now),
        completed: true,
        failed: failure_reason.is_some(),
        failure_reason: failure_reason.unwrap_or_default(),
        ..started_record
    }
}

/// Whether a file with this name is a memory dump.
fn is_dump(name: &str) -> bool {
    name.contains(DUMP_NAME_PART)
}

#[cfg(test)]
mod tests;
