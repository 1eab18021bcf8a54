//! Reads the files of a volume that Kubernetes mounts.
//!
//! The kubelet replaces the content by a link: `key -> ..data/key`, `..data -> ..2026_11_21_…`. Links are
//! followed and, as in KubeVirt's images, the kubelet's own directories are included. The volume's content is not
//! trusted: a link that leads out of the volume is an error.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::required_files::ConfigIso;

use super::ConfigDiskError;

/// Maximum size of all files. Kubernetes limits an object to 1.5 MiB, the kubelet's links show each file three times,
/// and a projected volume joins several objects.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_FILES: usize = 4096;
/// Maximum depth of directories below the volume's own.
const MAX_DEPTH: usize = 7;

/// A file of the volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountedFile {
    /// The path below the volume's directory.
    pub(super) path: String,
    /// The content.
    pub(super) content: Vec<u8>,
}

/// Reads all files of the volume, sorted by path.
pub(super) fn read(iso: &ConfigIso) -> Result<Vec<MountedFile>, ConfigDiskError> {
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
