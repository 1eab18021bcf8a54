//! Writes the cloud-init image.
//!
//! [`domain::cloud_init`] decides on the content. The launcher writes the image itself: an external program took a
//! tenth of a second of every start, and needed files with passwords in them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::cloud_init::{CloudInitData, CloudInitError};

use crate::atomic_file::{self, AtomicFileError, FileAttrs};
use crate::blocking::{self, NoAnswer};
use crate::vm_boot::iso9660;

/// How long writing an image may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Images are padded to whole mebibytes, as in KubeVirt: a migration's target creates an image of the same size before
/// it knows the content.
const ALIGNMENT: u64 = 1024 * 1024;
/// The image need not survive a crash of the node, since every start writes a new one.
const IMAGE_ATTRS: FileAttrs = FileAttrs {
    mode: 0o640,
    durable: false,
};

/// The image could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CloudInitImageError {
    /// The data are incomplete.
    #[error("cloud-init image {path}: {source}")]
    Content {
        /// The image.
        path: PathBuf,
        /// The missing data.
        source: CloudInitError,
    },
    /// The content cannot be represented in ISO 9660.
    #[error("cloud-init image {path}: {source}")]
    Format {
        /// The image.
        path: PathBuf,
        /// The limit that is exceeded.
        source: iso9660::Iso9660Error,
    },
    /// The file could not be written.
    #[error("cloud-init image {path}: {source}")]
    AtomicFile {
        /// The image.
        path: PathBuf,
        /// The file system error.
        source: AtomicFileError,
    },
    /// Writing timed out.
    #[error("{unanswered}: is the file system of {path} reachable?")]
    NoAnswer {
        /// The image.
        path: PathBuf,
        /// The call that timed out.
        unanswered: NoAnswer,
    },
}

/// Writes an image with these data to `path`, of `min_bytes` at least. Creates the directory, and replaces an existing
/// image. The image appears at `path` when it is complete.
///
/// # Errors
/// [`CloudInitImageError`], naming the image.
pub(crate) async fn write(
    data: &CloudInitData,
    path: &Path,
    min_bytes: u64,
) -> Result<(), CloudInitImageError> {
    let (data, target) = (data.clone(), path.to_owned());
    let write = move || write_blocking(&data, &target, min_bytes);
    blocking::file_call("writing the cloud-init image", WRITE_TIMEOUT, write)
        .await
        .map_err(|unanswered| CloudInitImageError::NoAnswer {
            path: path.to_owned(),
            unanswered,
        })?
}

fn write_blocking(
    data: &CloudInitData,
    path: &Path,
    min_bytes: u64,
) -> Result<(), CloudInitImageError> {
    let image = render(data, path)?;
    let written = atomic_file::write(path, IMAGE_ATTRS, |file| {
        file.write_all(&image)?;
        file.set_len(
            (image.len() as u64)
                .next_multiple_of(ALIGNMENT)
                .max(min_bytes),
        )
    });
    written.map_err(|source| CloudInitImageError::AtomicFile {
        path: path.to_owned(),
        source,
    })
}

fn render(data: &CloudInitData, path: &Path) -> Result<Vec<u8>, CloudInitImageError> {
    let files = domain::cloud_init::files(data).map_err(|source| CloudInitImageError::Content {
        path: path.to_owned(),
        source,
    })?;
    let files = files
        .iter()
        .map(|file| (file.path, file.content.as_slice()))
        .collect::<Vec<_>>();
    let label = data.data_source.volume_label();
    iso9660::image(label, &files).map_err(|source| CloudInitImageError::Format {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
