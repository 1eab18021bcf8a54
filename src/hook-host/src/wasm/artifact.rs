//! Compiled modules: written by this program's own compile child, kept where only it can write.

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
    /// The system says no.
    #[error("compiled modules cannot be kept in {path}: {source}")]
    Io {
        /// The directory or the file in it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may write to it, so what is in it cannot be trusted to run.
    #[error(
        "{path} must be a directory that belongs to uid {uid} with mode 0700, it belongs to uid \
         {owner} with mode {mode:04o}"
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Who we are.
        uid: u32,
        /// Whose it is.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
}

/// A private directory of compiled modules, named by the sha256 of the module and a hash of
/// everything in the engine that shapes machine code.
pub(super) struct Artifacts {
    dir: PathBuf,
    temporary: bool,
}

/// A file that is being written; gone when dropped.
pub(super) struct Scratch {
    pub(super) file: File,
    path: PathBuf,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Artifacts {
    /// Opens or creates a directory; without one, makes a temporary one of its own.
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
        private(dir)?;
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

    /// Whether this module may have been compiled here before, by whatever engine.
    pub(super) fn knows(&self, digest: &str) -> bool {
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

    /// Where this engine's code of a module belongs.
    pub(super) fn path(&self, digest: &str, compile_engine_key: &str) -> PathBuf {
        self.dir
            .join(format!("{digest}-{compile_engine_key}.cwasm"))
    }

    pub(super) fn scratch(&self) -> Result<Scratch, ArtifactError> {
        let path = self.dir.join(format!(".compiling-{}", serial()));
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match opened {
            Ok(file) => Ok(Scratch { file, path }),
            Err(source) => Err(ArtifactError::Io { path, source }),
        }
    }
}

impl Drop for Artifacts {
    fn drop(&mut self) {
        if self.temporary {
            // What is loaded stays mapped; nothing else needs the files.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

impl Scratch {
    pub(super) fn keep(self, path: &Path) -> Result<(), ArtifactError> {
        fs::rename(&self.path, path).map_err(|source| ArtifactError::Io {
            path: path.to_owned(),
            source,
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After `keep` there is nothing of that name.
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

fn private(dir: &Path) -> Result<(), ArtifactError> {
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

/// What in an engine shapes machine code, as part of a file name.
pub(super) fn compatibility(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The sha256 of a whole file in hexadecimal.
pub(super) fn digest(file: &File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    read(file, |piece| hasher.update(piece))?;
    Ok(hex(&hasher.finalize()))
}

/// Whether a whole file is still what was written, by accident or not: against malice there is only
/// where it lies. Some ten times as fast as a sha256.
pub(super) fn checksum(file: &File) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    read(file, |piece| hasher.write(piece))?;
    Ok(format!("{:016x}", hasher.finish()))
}

/// In pieces, so that it costs no memory.
fn read(file: &File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
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

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Maps a compiled module into memory.
pub(super) fn load(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the file is machine code that will run with our rights. It was written by this very
    // program's compile step (`compile`, `child`), into a directory that `private` found to belong
    // to us and to be open to nobody else, under a name no user chooses; `keep` put it there whole
    // by rename and nothing writes to it afterwards. wasmtime checks that version, settings and CPU
    // features are those of this engine.
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
        Artifacts::open(Some(&dir)).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        let error = Artifacts::open(Some(&dir)).err().unwrap();
        assert!(error.to_string().contains("mode 0750"), "{error}");
        let link = outer.path().join("link");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(Artifacts::open(Some(&link)).is_err());
    }

    #[test]
    fn what_is_not_kept_is_gone() {
        let outer = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(Some(&outer.path().join("a"))).unwrap();
        let kept = artifacts.path("abc", "123");
        artifacts.scratch().unwrap().keep(&kept).unwrap();
        drop(artifacts.scratch().unwrap());
        assert!(kept.exists() && artifacts.knows("abc") && !artifacts.knows("abd"));
        assert_eq!(fs::read_dir(outer.path().join("a")).unwrap().count(), 1);
    }
}
