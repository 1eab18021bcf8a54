//! Whether a file that a disk needs exists, with a deadline, and the error of a file system call.

use std::io;
use std::path::Path;

use tokio::time::timeout;

use super::{DiskError, DiskTools};

/// Whether there is a file or device. Runs off the runtime's threads: an image may lie on a network file
/// system that hangs.
pub(super) async fn is_present(path: &Path, tools: &DiskTools) -> Result<bool, DiskError> {
    match timeout(tools.deadline, tokio::fs::metadata(path)).await {
        Ok(Ok(metadata)) => Ok(!metadata.is_dir()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(Err(source)) => Err(failed("looking at", path, source)),
        Err(_) => Err(DiskError::Deadline {
            what: "looking at",
            image: path.to_owned(),
            deadline: tools.deadline,
        }),
    }
}

pub(super) fn failed(what: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}
