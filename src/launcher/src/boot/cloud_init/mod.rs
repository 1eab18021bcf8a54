//! Writes the cloud-init image.
//!
//! [`domain::cloud_init`] has the data and their rules. This process writes the image itself: an external program
//! took a tenth of a second of every start, and needed files with passwords in them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::cloud_init::{CloudInitData, CloudInitError};

use crate::atomic_file::{self, AtomicFileError, FileAttrs};
use crate::blocking::{self, NoAnswer};
use crate::boot::iso9660;

/// How long writing an image may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Images are padded to whole mebibytes, as KubeVirt's are: a migration target makes room for one
/// before it knows the content.
const ALIGNMENT: u64 = 1024 * 1024;
/// Every start writes a new image.
const IMAGE_ATTRS: FileAttrs = FileAttrs {
    mode: 0o640,
    durable: false,
};

/// The image is not written.
#[derive(Debug, thiserror::Error)]
pub enum IsoError {
    /// The image has no content.
    #[error("cloud-init image {path}: {source}")]
    Data {
        /// The image.
        path: PathBuf,
        /// What is missing.
        source: CloudInitError,
    },
    /// The content does not fit the format.
    #[error("cloud-init image {path}: {source}")]
    Format {
        /// The image.
        path: PathBuf,
        /// What does not fit.
        source: iso9660::FormatError,
    },
    /// It cannot be put in place.
    #[error("cloud-init image {path}: {source}")]
    AtomicFile {
        /// The image.
        path: PathBuf,
        /// The cause.
        source: AtomicFileError,
    },
    /// The file system hangs.
    #[error("{unanswered}: is the file system of {path} reachable?")]
    NoAnswer {
        /// The image.
        path: PathBuf,
        /// The expired call.
        unanswered: NoAnswer,
    },
}

/// Writes the image for these data to `path`, of at least `min_bytes`, replacing one that is there; its directory is made.
/// The image appears under its name when it is complete.
///
/// # Errors
/// [`IsoError`], naming the image.
pub(crate) async fn write_iso(
    data: &CloudInitData,
    path: &Path,
    min_bytes: u64,
) -> Result<(), IsoError> {
    let (data, target) = (data.clone(), path.to_owned());
    let write = move || write_blocking(&data, &target, min_bytes);
    blocking::file_call("writing the cloud-init image", WRITE_TIMEOUT, write)
        .await
        .map_err(|unanswered| IsoError::NoAnswer {
            path: path.to_owned(),
            unanswered,
        })?
}

fn write_blocking(data: &CloudInitData, path: &Path, min_bytes: u64) -> Result<(), IsoError> {
    let image = render(data, path)?;
    let placed = atomic_file::write(path, IMAGE_ATTRS, |file| {
        file.write_all(&image)?;
        file.set_len(
            (image.len() as u64)
                .next_multiple_of(ALIGNMENT)
                .max(min_bytes),
        )
    });
    placed.map_err(|source| IsoError::AtomicFile {
        path: path.to_owned(),
        source,
    })
}

fn render(data: &CloudInitData, path: &Path) -> Result<Vec<u8>, IsoError> {
    let files = domain::cloud_init::files(data).map_err(|source| IsoError::Data {
        path: path.to_owned(),
        source,
    })?;
    let files = files
        .iter()
        .map(|file| (file.path, file.content.as_slice()))
        .collect::<Vec<_>>();
    let label = data.data_source.volume_label();
    iso9660::image(label, &files).map_err(|source| IsoError::Format {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
