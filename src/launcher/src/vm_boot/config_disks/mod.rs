//! Writes the images of config disks: a configMap, secret, downwardAPI, serviceAccount or sysprep volume that
//! Kubernetes mounts into the pod becomes a disk with an ISO 9660 file system.
//!
//! [`domain::required_files`] decides which directory becomes which image. Every start writes new images of what is
//! mounted at that time.

mod mounted_volume;

use std::io::{self, Write};
use std::path::PathBuf;

use domain::required_files::{ConfigIso, ConfigKind};

use crate::atomic_file::{self, AtomicFileError, FileAttrs};
use crate::vm_boot::iso9660::{self, Iso9660Error};

/// Images are padded to whole mebibytes, as in KubeVirt: a migration's target creates an image of the same size before
/// it knows the content.
const ALIGNMENT: u64 = 1024 * 1024;
/// Other users cannot read the images, which may hold secrets. They need not survive a crash of the node, since every
/// start writes new ones.
const IMAGE_ATTRS: FileAttrs = FileAttrs {
    mode: 0o640,
    durable: false,
};

/// The image of a config disk could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigDiskError {
    /// The mounted volume cannot be read.
    #[error("volume {volume} ({kind}): reading {path}: {source}")]
    Read {
        /// The volume.
        volume: String,
        /// The kind of volume.
        kind: ConfigKind,
        /// The directory, or a file in it.
        path: PathBuf,
        /// The file system error, or the reason why the file is not allowed.
        source: io::Error,
    },
    /// A sysprep volume has no answer file for Windows.
    #[error("volume {volume}: {directory} has neither {names}: a sysprep volume needs one of them")]
    NoAnswerFile {
        /// The volume.
        volume: String,
        /// The directory that was searched.
        directory: PathBuf,
        /// The possible names of answer files.
        names: String,
    },
    /// The content cannot be represented in ISO 9660.
    #[error("volume {volume} ({kind}): {source}")]
    Format {
        /// The volume.
        volume: String,
        /// The kind of volume.
        kind: ConfigKind,
        /// The limit that is exceeded.
        source: Iso9660Error,
    },
    /// The file could not be written.
    #[error("volume {volume}: {source}")]
    AtomicFile {
        /// The volume.
        volume: String,
        /// The file system error.
        source: AtomicFileError,
    },
}

/// Writes one image. Blocking.
///
/// # Errors
/// [`ConfigDiskError`], naming the volume and the path.
pub(super) fn write(iso: &ConfigIso) -> Result<(), ConfigDiskError> {
    let files = mounted_volume::read(iso)?;
    require_answer_file(iso, &files)?;
    let entries: Vec<_> = files
        .iter()
        .map(|file| (file.path.as_str(), file.content.as_slice()))
        .collect();
    let image = iso9660::image(&iso.label, &entries).map_err(|source| ConfigDiskError::Format {
        volume: iso.volume.clone(),
        kind: iso.kind,
        source,
    })?;
    let written = atomic_file::write(iso.path.as_ref(), IMAGE_ATTRS, |file| {
        file.write_all(&image)?;
        let aligned = (image.len() as u64).next_multiple_of(ALIGNMENT);
        file.set_len(aligned.max(iso.min_bytes))
    });
    written.map_err(|source| ConfigDiskError::AtomicFile {
        volume: iso.volume.clone(),
        source,
    })
}

fn require_answer_file(
    iso: &ConfigIso,
    files: &[mounted_volume::MountedFile],
) -> Result<(), ConfigDiskError> {
    let names = iso.kind.answer_files();
    let is_answer = |path: &str| names.iter().any(|name| path.eq_ignore_ascii_case(name));
    if names.is_empty() || files.iter().any(|file| is_answer(&file.path)) {
        return Ok(());
    }
    Err(ConfigDiskError::NoAnswerFile {
        volume: iso.volume.clone(),
        directory: iso.directory.clone().into(),
        names: names.join(" nor "),
    })
}

#[cfg(test)]
mod tests;
