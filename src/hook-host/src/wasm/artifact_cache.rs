//! The private directory of compiled modules. Only this program's compile step writes to it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// The directory of compiled modules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// A file operation failed.
    #[error("compiled modules cannot be kept in {path}: {source}")]
    Io {
        /// The directory or the file in it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other users may write to the directory, so its content must not be run.
    #[error(
        "{path} must be a directory that belongs to uid {uid} with mode 0700, it belongs to uid \
         {owner} with mode {mode:04o}"
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// The uid of this process.
        uid: u32,
        /// The owner of the directory.
        owner: u32,
        /// The mode of the directory.
        mode: u32,
    },
}

/// A private directory of compiled modules, named by the sha256 of the module and a hash of
/// everything in the engine that shapes machine code.
pub(super) struct ArtifactCache {
    dir: PathBuf,
    temporary: bool,
}

/// An artifact that is being written. The file is removed on drop unless it was published.
pub(super) struct PartialArtifact {
    pub(super) file: File,
    path: PathBuf,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl ArtifactCache {
    /// Opens or creates `dir`; without `dir`, creates a temporary directory.
    pub(super) fn open(dir: Option<&Path>) -> Result<Self, ArtifactError> {
        match dir {
            Some(dir) => Self::at(dir),
            None => Self::temporary(),
        }
    }

    fn at(dir: &Path) -> Result<Self, ArtifactError> {
        let mut builder = DirBuilder::new();
        match builder.mode(0o700).recursive(true).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ArtifactError::Io {
                    path: dir.to_owned(),
                    source: error,
                });
            }
            _ => {}
        }
        check_private(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            temporary: false,
        })
    }

    fn temporary() -> Result<Self, ArtifactError> {
        let base = std::env::temp_dir();
        loop {
            let dir = base.join(format!("hook-artifacts-{}", serial()));
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => {
                    return Ok(Self {
                        dir,
                        temporary: true,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(ArtifactError::Io { path: dir, source }),
            }
        }
    }

    /// Whether the cache holds code of this module, for any engine.
    pub(super) fn has_module(&self, digest: &str) -> bool {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return false;
        };
        entries.flatten().any(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(digest))
        })
    }

    /// The path of a module's code for one engine.
    pub(super) fn path(&self, digest: &str, compile_engine_key: &str) -> PathBuf {
        self.dir
            .join(format!("{digest}-{compile_engine_key}.cwasm"))
    }

    pub(super) fn new_partial(&self) -> Result<PartialArtifact, ArtifactError> {
        let path = self.dir.join(format!(".compiling-{}", serial()));
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match opened {
            Ok(file) => Ok(PartialArtifact { file, path }),
            Err(source) => Err(ArtifactError::Io { path, source }),
        }
    }
}

impl Drop for ArtifactCache {
    fn drop(&mut self) {
        if self.temporary {
            // Loaded code stays mapped; nothing else needs the files.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

impl PartialArtifact {
    pub(super) fn publish(self, path: &Path) -> Result<(), ArtifactError> {
        fs::rename(&self.path, path).map_err(|source| ArtifactError::Io {
            path: path.to_owned(),
            source,
        })
    }
}

impl Drop for PartialArtifact {
    fn drop(&mut self) {
        // After `publish` no file has this name.
        let _ = fs::remove_file(&self.path);
    }
}

pub(super) fn serial() -> String {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| now.subsec_nanos());
    format!("{}-{serial}-{nanos:08x}", std::process::id())
}

fn check_private(dir: &Path) -> Result<(), ArtifactError> {
    let metadata = fs::symlink_metadata(dir).map_err(|source| ArtifactError::Io {
        path: dir.to_owned(),
        source,
    })?;
    let (uid, mode) = (
        rustix::process::geteuid().as_raw(),
        metadata.mode() & 0o7777,
    );
    if metadata.is_dir() && metadata.uid() == uid && mode & 0o077 == 0 {
        return Ok(());
    }
    Err(ArtifactError::NotPrivate {
        path: dir.to_owned(),
        uid,
        owner: metadata.uid(),
        mode,
    })
}

/// A hash of the engine settings that shape machine code, for file names.
pub(super) fn engine_key(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The sha256 of a whole file in hexadecimal.
pub(crate) fn digest(file: &File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    for_each_chunk(file, |piece| hasher.update(piece))?;
    Ok(format!("{:x}", hasher.finalize()))
}

/// The content of a file that has this digest.
pub(crate) fn read_with_digest(file: &File, limit: usize, expected: &str) -> io::Result<Vec<u8>> {
    let mut hasher = Sha256::new();
    let mut content = Vec::new();
    for_each_chunk(file, |piece| {
        // A file that grows meanwhile has another digest.
        if content.len() <= limit {
            hasher.update(piece);
            content.extend_from_slice(piece);
        }
    })?;
    if format!("{:x}", hasher.finalize()) != expected {
        return Err(io::Error::other("it changes while it is read"));
    }
    Ok(content)
}

/// A checksum of the whole file that detects accidental damage, about ten times as fast as sha256.
/// It gives no protection against an attacker; the location of the file does (`file_trust`).
pub(super) fn checksum(file: &File) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for_each_chunk(file, |piece| hasher.write(piece))?;
    Ok(format!("{:016x}", hasher.finish()))
}

/// Reads the file in small chunks, so that memory use does not depend on its size.
fn for_each_chunk(file: &File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    let mut offset = 0;
    loop {
        match file.read_at(&mut buffer, offset) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                take(&buffer[..read]);
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Maps a compiled module into memory.
pub(super) fn load(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the file is machine code that runs with the rights of this process. Either this
    // program's compile step (`compile`, `compile_child`) wrote it into a directory that
    // `check_private` found to belong to this user and to be closed to all others, under a name that
    // no user chooses, and `publish` put it there whole by rename; or `virt-hook` copied it there from
    // what an earlier run of it had compiled for this user and kept in a directory under the same rule,
    // with the sha256 that was noted then (`desk_cache`); or it came with the image and
    // `file_trust` found that only root could have written it. Nothing writes to it afterwards.
    // wasmtime checks that version, settings and CPU features are those of this engine.
    #[allow(unsafe_code)]
    unsafe {
        Component::deserialize_file(engine, path)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_private_directory_is_trusted() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("artifacts");
        ArtifactCache::open(Some(&dir)).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        let error = ArtifactCache::open(Some(&dir)).err().unwrap();
        assert!(error.to_string().contains("mode 0750"), "{error}");
        let link = outer.path().join("link");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(ArtifactCache::open(Some(&link)).is_err());
    }

    #[test]
    fn an_artifact_that_is_not_published_is_removed() {
        let outer = tempfile::tempdir().unwrap();
        let artifacts = ArtifactCache::open(Some(&outer.path().join("a"))).unwrap();
        let kept = artifacts.path("abc", "123");
        artifacts.new_partial().unwrap().publish(&kept).unwrap();
        drop(artifacts.new_partial().unwrap());
        assert!(kept.exists() && artifacts.has_module("abc") && !artifacts.has_module("abd"));
        assert_eq!(fs::read_dir(outer.path().join("a")).unwrap().count(), 1);
    }
}
