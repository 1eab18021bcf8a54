//! The private directory of compiled modules. Only this program writes to it.
//!
//! The directory is checked once, when it is opened, and used through its descriptor, so that nobody who can
//! rename a parent directory can replace it by another one.

#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Why the directory of compiled modules, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// A file operation failed.
    #[error("compiled modules cannot be kept in {path}: {source}")]
    Io {
        /// The directory, or the file in it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other users may change the code, so the code must not be run.
    #[error(
        "{path} must belong to uid {uid} and be closed to all others (a directory has mode 0700), it belongs to \
         uid {owner} with mode {mode:04o}"
    )]
    NotPrivate {
        /// The directory, or the file in it.
        path: PathBuf,
        /// The uid of this process.
        uid: u32,
        /// The uid of the owner.
        owner: u32,
        /// The mode of the directory or file.
        mode: u32,
    },
}

/// A private directory of compiled modules. The name of a file has the sha256 of the module and a hash of
/// all engine settings that affect machine code.
pub(super) struct ArtifactCache {
    dir: Dir,
    path: PathBuf,
    /// Whether the directory is removed on drop.
    is_temporary: bool,
}

/// An artifact that is being written. The file is removed on drop unless it has been published.
pub(super) struct PartialArtifact<'a> {
    pub(super) file: File,
    name: String,
    cache: &'a ArtifactCache,
}

static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

impl ArtifactCache {
    /// Opens or creates `dir`; without `dir`, creates a temporary directory.
    pub(super) fn open(dir: Option<&Path>) -> Result<Self, ArtifactError> {
        match dir {
            Some(path) => {
                let created = DirBuilder::new().mode(0o700).recursive(true).create(path);
                created.map_err(io_at(path))?;
                Self::open_existing(path, false)
            }
            None => Self::create_temporary(),
        }
    }

    fn open_existing(path: &Path, is_temporary: bool) -> Result<Self, ArtifactError> {
        Ok(Self {
            dir: Dir::from_std_file(open_private(path)?),
            path: path.to_owned(),
            is_temporary,
        })
    }

    fn create_temporary() -> Result<Self, ArtifactError> {
        let base = std::env::temp_dir();
        loop {
            let path = base.join(format!("hook-artifacts-{}", unique_suffix()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self::open_existing(&path, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(ArtifactError::Io { path, source }),
            }
        }
    }

    /// Whether the cache has code of this module for some engine.
    pub(super) fn has_module(&self, digest: &str) -> bool {
        let Ok(entries) = self.dir.entries() else {
            return false;
        };
        entries.flatten().any(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(digest))
        })
    }

    /// Opens the artifact with this name, which must be a file that only this user may change.
    pub(super) fn open_artifact(&self, name: &str) -> Result<File, ArtifactError> {
        let path = self.path_of(name);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let opened = self.dir.open_with(name, &options);
        let file = opened.map_err(io_at(&path))?.into_std();
        let metadata = file.metadata().map_err(io_at(&path))?;
        check_private(&path, &metadata, metadata.is_file())?;
        Ok(file)
    }

    /// The path of a file of the cache.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn create_partial(&self) -> Result<PartialArtifact<'_>, ArtifactError> {
        let name = format!(".compiling-{}", unique_suffix());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let created = self.dir.open_with(&name, &options);
        let file = created.map_err(io_at(&self.path_of(&name)))?.into_std();
        Ok(PartialArtifact {
            file,
            name,
            cache: self,
        })
    }
}

impl Drop for ArtifactCache {
    fn drop(&mut self) {
        if self.is_temporary {
            // Loaded code stays mapped, and nothing else needs the files.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl PartialArtifact<'_> {
    /// Renames the complete file to `name`.
    pub(super) fn publish(&self, name: &str) -> Result<(), ArtifactError> {
        let dir = &self.cache.dir;
        let renamed = dir.rename(&self.name, dir, name);
        renamed.map_err(io_at(&self.cache.path_of(name)))
    }
}

impl Drop for PartialArtifact<'_> {
    fn drop(&mut self) {
        // After `publish`, no file has this name, and removing it fails.
        let _ = self.cache.dir.remove_file(&self.name);
    }
}

/// A part of file names that no other process or call uses.
pub(super) fn unique_suffix() -> String {
    let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| now.subsec_nanos());
    format!("{}-{serial}-{nanos:08x}", std::process::id())
}

/// Opens a directory that only this user may read and write.
fn open_private(path: &Path) -> Result<File, ArtifactError> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let dir = opened.map_err(io_at(path))?;
    let metadata = dir.metadata().map_err(io_at(path))?;
    check_private(path, &metadata, metadata.is_dir())?;
    Ok(dir)
}

/// Checks that the file has the expected type, which `has_type` says, and that only this user may access it.
fn check_private(path: &Path, metadata: &Metadata, has_type: bool) -> Result<(), ArtifactError> {
    let (uid, mode) = (
        rustix::process::geteuid().as_raw(),
        metadata.mode() & 0o7777,
    );
    if has_type && metadata.uid() == uid && mode & 0o077 == 0 {
        return Ok(());
    }
    Err(ArtifactError::NotPrivate {
        path: path.to_owned(),
        uid,
        owner: metadata.uid(),
        mode,
    })
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> ArtifactError {
    move |source| ArtifactError::Io {
        path: path.to_owned(),
        source,
    }
}

/// The file name of a module's artifact for one engine.
pub(super) fn artifact_name(digest: &str, engine: &Engine) -> String {
    format!("{digest}-{}.cwasm", engine_key(engine))
}

/// A hash of the engine settings that affect machine code, for file names.
pub(super) fn engine_key(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Maps an artifact into memory. The open file is mapped, even if another file has its path by now.
pub(super) fn load(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the file is machine code that runs with the rights of this process. Either this
    // program's compile step (`compile`, `compile_child`) wrote it into a directory that
    // `open_private` found to belong to this user and to be closed to all others, under a name that
    // no user chooses, and `publish` renamed the complete file into place; or `virt-hook` copied it there from
    // what an earlier run of `virt-hook` had compiled for this user and kept in a directory under the same rule,
    // with the sha256 that was noted then (`compiled_module_cache`); or it came with the image and
    // `precompiled_file_trust` found that only root could have written it. Nothing writes to it afterwards.
    // wasmtime checks that version, settings and CPU features are those of this engine.
    #[allow(unsafe_code)]
    unsafe {
        Component::deserialize_file(engine, path)
    }
}
