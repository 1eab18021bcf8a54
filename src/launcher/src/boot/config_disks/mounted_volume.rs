//! The files of a volume that Kubernetes mounts, for its image.
//!
//! The kubelet swaps content by a link: `key -> ..data/key`, `..data -> ..2026_11_21_…`. Links are
//! followed and, as in KubeVirt's images, the kubelet's own directories are included. The volume's content is not
//! trusted: a link that leads out of the volume is refused.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::required_files::ConfigIso;

use super::ConfigIsoError;

/// Kubernetes limits what it keeps in one object to a mebibyte and a half, the image shows it three
/// times over, and a projected volume joins several.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_FILES: usize = 4096;
/// Directories below the first.
const MAX_DEPTH: usize = 7;

/// A file for the image.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountedFile {
    /// Its path below the directory.
    pub(super) path: String,
    /// What it holds.
    pub(super) content: Vec<u8>,
}

/// Reads everything in the directory, sorted by path.
pub(super) fn read(iso: &ConfigIso) -> Result<Vec<MountedFile>, ConfigIsoError> {
    let failed = |(path, source)| ConfigIsoError::Read {
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
    reader.directory(root, "", 0).map_err(failed)?;
    Ok(reader.files)
}

type Failure = (PathBuf, io::Error);

struct VolumeReader {
    /// The directory itself, all links resolved.
    root: PathBuf,
    files: Vec<MountedFile>,
    bytes: u64,
}

impl VolumeReader {
    fn directory(&mut self, path: &Path, shown: &str, depth: usize) -> Result<(), Failure> {
        let at = |source| (path.to_owned(), source);
        if depth > MAX_DEPTH {
            return Err(at(io::Error::other(format!(
                "more than {MAX_DEPTH} directories deep; does a link lead back up?"
            ))));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(at)? {
            let name = entry.map_err(at)?.file_name();
            let name = name
                .into_string()
                .map_err(|name| (path.join(name), io::Error::other("the name is not UTF-8")))?;
            names.push(name);
            if names.len() > MAX_FILES {
                return Err(at(too_many()));
            }
        }
        names.sort();
        for name in names {
            self.entry(&path.join(&name), &format!("{shown}{name}"), depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, shown: &str, depth: usize) -> Result<(), Failure> {
        let at = |source| (path.to_owned(), source);
        let real = fs::canonicalize(path).map_err(at)?;
        if !real.starts_with(&self.root) {
            let why = format!("it links to {}, outside of the volume", real.display());
            return Err(at(io::Error::other(why)));
        }
        let metadata = fs::metadata(&real).map_err(at)?;
        if metadata.is_dir() {
            return self.directory(&real, &format!("{shown}/"), depth + 1);
        }
        if !metadata.is_file() {
            return Err(at(io::Error::other("neither a file nor a directory")));
        }
        self.file(&real, shown).map_err(at)
    }

    fn file(&mut self, path: &Path, shown: &str) -> io::Result<()> {
        if self.files.len() == MAX_FILES {
            return Err(too_many());
        }
        let left = MAX_BYTES - self.bytes;
        let mut content = Vec::new();
        File::open(path)?.take(left + 1).read_to_end(&mut content)?;
        self.bytes += content.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(io::Error::other(format!(
                "with this file the volume has more than {MAX_BYTES} bytes"
            )));
        }
        self.files.push(MountedFile {
            path: shown.to_owned(),
            content,
        });
        Ok(())
    }
}

fn too_many() -> io::Error {
    io::Error::other(format!("more than {MAX_FILES} files"))
}
