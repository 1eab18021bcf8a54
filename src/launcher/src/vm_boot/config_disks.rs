//! Writes the images of config disks: a configMap, secret, downwardAPI, serviceAccount or sysprep volume that
//! Kubernetes mounts into the pod becomes a disk with an ISO 9660 file system.
//!
//! [`domain::required_files`] decides which directory becomes which image. Every start writes new images of what is
//! mounted at that time.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use domain::required_files::{ConfigIso, ConfigKind};

use crate::atomic_file;
use crate::atomic_file::{AtomicFileError, FileAttrs};
use crate::vm_boot::iso9660;
use crate::vm_boot::iso9660::Iso9660Error;

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
    let files = read_mounted_volume(iso)?;
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

fn require_answer_file(iso: &ConfigIso, files: &[MountedFile]) -> Result<(), ConfigDiskError> {
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

// Reads the files of a volume that Kubernetes mounts.
//
// The kubelet replaces the content by a link: `key -> ..data/key`, `..data -> ..2026_11_21_…`. Links are
// followed and, as in KubeVirt's images, the kubelet's own directories are included. The volume's content is not
// trusted: a link that leads out of the volume is an error.

/// Maximum size of all files. Kubernetes limits an object to 1.5 MiB, the kubelet's links show each file three times,
/// and a projected volume joins several objects.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_FILES: usize = 4096;
/// Maximum depth of directories below the volume's own.
const MAX_DEPTH: usize = 7;

/// A file of the volume.
#[derive(Debug, PartialEq, Eq)]
struct MountedFile {
    /// The path below the volume's directory.
    path: String,
    /// The content.
    content: Vec<u8>,
}

/// Reads all files of the volume, sorted by path.
fn read_mounted_volume(iso: &ConfigIso) -> Result<Vec<MountedFile>, ConfigDiskError> {
    let failed = |(path, source)| ConfigDiskError::Read {
        volume: iso.volume.clone(),
        kind: iso.kind,
        path,
        source,
    };
    let root = Path::new(&iso.directory);
    let real = fs::canonicalize(root).map_err(|source| failed((root.to_owned(), source)))?;
    let mut reader = VolumeReader {
        root: real,
        files: Vec::new(),
        bytes: 0,
    };
    reader.read_directory(root, "", 0).map_err(failed)?;
    Ok(reader.files)
}

type Failure = (PathBuf, io::Error);

struct VolumeReader {
    /// The volume's directory, with all links resolved.
    root: PathBuf,
    files: Vec<MountedFile>,
    bytes: u64,
}

impl VolumeReader {
    fn read_directory(
        &mut self,
        path: &Path,
        image_path: &str,
        depth: usize,
    ) -> Result<(), Failure> {
        let failure = |source| (path.to_owned(), source);
        if depth > MAX_DEPTH {
            return Err(failure(io::Error::other(format!(
                "more than {MAX_DEPTH} directories deep; does a link lead back up?"
            ))));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(failure)? {
            let name = entry.map_err(failure)?.file_name();
            let name = name
                .into_string()
                .map_err(|name| (path.join(name), io::Error::other("the name is not UTF-8")))?;
            names.push(name);
            if names.len() > MAX_FILES {
                return Err(failure(too_many_files()));
            }
        }
        names.sort();
        for name in names {
            self.read_entry(&path.join(&name), &format!("{image_path}{name}"), depth)?;
        }
        Ok(())
    }

    fn read_entry(&mut self, path: &Path, image_path: &str, depth: usize) -> Result<(), Failure> {
        let failure = |source| (path.to_owned(), source);
        let real = fs::canonicalize(path).map_err(failure)?;
        if !real.starts_with(&self.root) {
            let reason = format!("it links to {}, outside of the volume", real.display());
            return Err(failure(io::Error::other(reason)));
        }
        let metadata = fs::metadata(&real).map_err(failure)?;
        if metadata.is_dir() {
            return self.read_directory(&real, &format!("{image_path}/"), depth + 1);
        }
        if !metadata.is_file() {
            return Err(failure(io::Error::other("neither a file nor a directory")));
        }
        self.read_file(&real, image_path).map_err(failure)
    }

    fn read_file(&mut self, path: &Path, image_path: &str) -> io::Result<()> {
        if self.files.len() == MAX_FILES {
            return Err(too_many_files());
        }
        let remaining = MAX_BYTES - self.bytes;
        let mut content = Vec::new();
        File::open(path)?
            .take(remaining + 1)
            .read_to_end(&mut content)?;
        self.bytes += content.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(io::Error::other(format!(
                "with this file the volume has more than {MAX_BYTES} bytes"
            )));
        }
        self.files.push(MountedFile {
            path: image_path.to_owned(),
            content,
        });
        Ok(())
    }
}

fn too_many_files() -> io::Error {
    io::Error::other(format!("more than {MAX_FILES} files"))
}

#[cfg(test)]
mod tests;
