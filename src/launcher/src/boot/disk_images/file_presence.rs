//! Whether a file that a disk needs exists, with a deadline.

use std::io;
use std::path::Path;

use super::{DiskError, DiskTools};
use crate::blocking::{self, NoAnswer};

/// Whether there is a file or device. Runs off the runtime's threads: an image may lie on a network file
/// system that hangs.
pub(super) async fn is_present(path: &Path, tools: &DiskTools) -> Result<bool, DiskError> {
    let image = path.to_owned();
    let read = move || std::fs::metadata(image);
    match blocking::file_call("looking at an image", tools.deadline, read).await {
        Ok(Ok(metadata)) => Ok(!metadata.is_dir()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(Err(source)) => Err(DiskError::io("looking at", path, source)),
        Err(error @ NoAnswer::Fault { .. }) => Err(error.into()),
        Err(NoAnswer::Late { .. }) => Err(DiskError::Deadline {
            what: "looking at",
            image: path.to_owned(),
            deadline: tools.deadline,
        }),
    }
}
