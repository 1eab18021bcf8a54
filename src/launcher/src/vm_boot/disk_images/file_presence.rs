//! Checks whether a file that a disk needs exists, with a deadline.

use std::io;
use std::path::Path;

use super::{DiskImageError, DiskTools};
use crate::blocking::{self, NoAnswer};

/// Whether a file or device exists at the path; false for a directory. Runs off the async workers: an image may be on a
/// network file system that hangs.
pub(super) async fn is_present(path: &Path, tools: &DiskTools) -> Result<bool, DiskImageError> {
    let image = path.to_owned();
    let read_metadata = move || std::fs::metadata(image);
    match blocking::file_call("looking at an image", tools.deadline, read_metadata).await {
        Ok(Ok(metadata)) => Ok(!metadata.is_dir()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(Err(source)) => Err(DiskImageError::io("looking at", path, source)),
        Err(NoAnswer::Timeout { .. }) => Err(DiskImageError::Timeout {
            what: "looking at",
            image: path.to_owned(),
            deadline: tools.deadline,
        }),
        Err(error) => Err(error.into()),
    }
}
