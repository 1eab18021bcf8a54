//! Config disks: what Kubernetes mounts into the pod as configMap, secret, downwardAPI, serviceAccount or sysprep
//! volume, as a disk with an ISO 9660 file system.
//!
//! Which directory becomes which image is decided in [`domain::required_files`]. Every start writes a
//! new image of what is mounted then.

mod mounted_volume;

use std::io::{self, Write};
use std::path::PathBuf;

use domain::required_files::{ConfigIso, ConfigKind};

use crate::atomic_file::{self, AtomicFileError, FileAttrs};
use crate::boot::iso9660::{self, FormatError};

/// Images are padded to whole mebibytes, as KubeVirt's are: a migration target makes room for one
/// before it knows the content.
const ALIGNMENT: u64 = 1024 * 1024;
/// Secrets are among them.
const IMAGE_ATTRS: FileAttrs = FileAttrs {
    mode: 0o640,
    durable: false,
};

/// An image is not written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigIsoError {
    /// What is mounted cannot be read.
    #[error("volume {volume} ({kind}): reading {path}: {source}")]
    Read {
        /// The volume.
        volume: String,
        /// What kind of volume.
        kind: ConfigKind,
        /// The directory, or the file in it.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// Windows would find no answer file.
    #[error("volume {volume}: {directory} has neither {names}: a sysprep volume needs one of them")]
    NoAnswerFile {
        /// The volume.
        volume: String,
        /// Where they were looked for.
        directory: PathBuf,
        /// The names of answer files.
        names: String,
    },
    /// The content does not fit the format.
    #[error("volume {volume} ({kind}): {source}")]
    Format {
        /// The volume.
        volume: String,
        /// What kind of volume.
        kind: ConfigKind,
        /// What does not fit.
        source: FormatError,
    },
    /// The image cannot be put in place.
    #[error("volume {volume}: {source}")]
    AtomicFile {
        /// The volume.
        volume: String,
        /// Why it cannot be.
        source: AtomicFileError,
    },
}

/// Makes one image. Blocking.
///
/// # Errors
/// [`ConfigIsoError`], naming the volume and the path.
pub(super) fn write(iso: &ConfigIso) -> Result<(), ConfigIsoError> {
    let files = mounted_volume::read(iso)?;
    require_answer_file(iso, &files)?;
    let entries: Vec<_> = files
        .iter()
        .map(|file| (file.path.as_str(), file.content.as_slice()))
        .collect();
    let image = iso9660::image(&iso.label, &entries).map_err(|source| ConfigIsoError::Format {
        volume: iso.volume.clone(),
        kind: iso.kind,
        source,
    })?;
    let written = atomic_file::write(iso.path.as_ref(), IMAGE_ATTRS, |file| {
        file.write_all(&image)?;
        let aligned = (image.len() as u64).next_multiple_of(ALIGNMENT);
        file.set_len(aligned.max(iso.min_bytes))
    });
    written.map_err(|source| ConfigIsoError::AtomicFile {
        volume: iso.volume.clone(),
        source,
    })
}

fn require_answer_file(
    iso: &ConfigIso,
    files: &[mounted_volume::MountedFile],
) -> Result<(), ConfigIsoError> {
    let names = iso.kind.answer_files();
    let is_answer = |path: &str| names.iter().any(|name| path.eq_ignore_ascii_case(name));
    if names.is_empty() || files.iter().any(|file| is_answer(&file.path)) {
        return Ok(());
    }
    Err(ConfigIsoError::NoAnswerFile {
        volume: iso.volume.clone(),
        directory: iso.directory.clone().into(),
        names: names.join(" nor "),
    })
}

#[cfg(test)]
mod tests;
