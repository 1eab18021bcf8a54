//! The private directory of compiled modules. Only this program's compile step writes to it.
//!
//! The directory is checked once, when it is opened, and used through that descriptor: whoever can
//! rename a directory above it cannot put another one in its place.

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
    /// Other users may change the code, so it must not be run.
    #[error(
        "{path} must belong to uid {uid} and be closed to all others (a directory has mode 0700), it belongs to \
         uid {owner} with mode {mode:04o}"
    )]
    NotPrivate {
        /// The directory, or the file in it.
        path: PathBuf,
        /// The uid of this process.
        uid: u32,
        /// The owner that was found.
        owner: u32,
        /// The mode that was found.
        mode: u32,
    },
}

/// A private directory of compiled modules, named by the sha256 of the module and a hash of
/// everything in the engine that shapes machine code.
pub(super) struct ArtifactCache {
    dir: Dir,
    path: PathBuf,
    temporary: bool,
}

/// An artifact that is being written. The file is removed on drop unless it was published.
pub(super) struct PartialArtifact<'a> {
    pub(super) file: File,
    name: String,
    cache: &'a ArtifactCache,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl ArtifactCache {
    /// Opens or creates `dir`; without `dir`, creates a temporary directory.
    pub(super) fn open(dir: Option<&Path>) -> Result<Self, ArtifactError> {
        match dir {
            Some(path) => {
                let made = DirBuilder::new().mode(0o700).recursive(true).create(path);
                made.map_err(io_at(path))?;
                Self::at(path, false)
            }
            None => Self::temporary(),
        }
    }

    fn at(path: &Path, temporary: bool) -> Result<Self, ArtifactError> {
        Ok(Self {
            dir: Dir::from_std_file(open_private(path)?),
            path: path.to_owned(),
            temporary,
        })
    }

    fn temporary() -> Result<Self, ArtifactError> {
        let base = std::env::temp_dir();
        loop {
            let path = base.join(format!("hook-artifacts-{}", serial()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self::at(&path, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(ArtifactError::Io { path, source }),
            }
        }
    }

    /// Whether the cache holds code of this module, for any engine.
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

    /// Opens a module's code, which must be a file that only this user may change.
    pub(super) fn artifact(&self, name: &str) -> Result<File, ArtifactError> {
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

    /// The place of a file of the cache.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn new_partial(&self) -> Result<PartialArtifact<'_>, ArtifactError> {
        let name = format!(".compiling-{}", serial());
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
        if self.temporary {
            // Loaded code stays mapped; nothing else needs the files.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl PartialArtifact<'_> {
    /// Gives the file its name.
    pub(super) fn publish(&self, name: &str) -> Result<(), ArtifactError> {
        let dir = &self.cache.dir;
        let renamed = dir.rename(&self.name, dir, name);
        renamed.map_err(io_at(&self.cache.path_of(name)))
    }
}

impl Drop for PartialArtifact<'_> {
    fn drop(&mut self) {
        // After `publish` no file has this name.
        let _ = self.cache.dir.remove_file(&self.name);
    }
}

pub(super) fn serial() -> String {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
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

fn check_private(path: &Path, metadata: &Metadata, is_kind: bool) -> Result<(), ArtifactError> {
    let (uid, mode) = (
        rustix::process::geteuid().as_raw(),
        metadata.mode() & 0o7777,
    );
    if is_kind && metadata.uid() == uid && mode & 0o077 == 0 {
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

/// The name of a module's code for one engine.
pub(super) fn artifact_name(digest: &str, engine: &Engine) -> String {
    format!("{digest}-{}.cwasm", engine_key(engine))
}

/// A hash of the engine settings that shape machine code, for file names.
pub(super) fn engine_key(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Maps a compiled module into memory: the file that was opened, whatever has its path by now.
pub(super) fn load(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the file is machine code that runs with the rights of this process. Either this
    // program's compile step (`compile`, `compile_child`) wrote it into a directory that
    // `open_private` found to belong to this user and to be closed to all others, under a name that
    // no user chooses, and `publish` put it there whole by rename; or `virt-hook` copied it there from
    // what an earlier run of it had compiled for this user and kept in a directory under the same rule,
    // with the sha256 that was noted then (`compiled_module_cache`); or it came with the image and
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
    use std::os::unix::fs::{FileExt, PermissionsExt};

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
    fn a_directory_that_takes_the_place_of_the_checked_one_is_not_used() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("a");
        let artifacts = ArtifactCache::open(Some(&dir)).unwrap();
        put(&artifacts, "abc-1.cwasm", b"checked");
        fs::rename(&dir, outer.path().join("b")).unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("abc-1.cwasm"), "planted").unwrap();
        fs::write(dir.join("abd-1.cwasm"), "planted").unwrap();
        let found = artifacts.artifact("abc-1.cwasm").unwrap();
        assert_eq!(io::read_to_string(found).unwrap(), "checked");
        assert!(!artifacts.has_module("abd"));
        put(&artifacts, "abe-1.cwasm", b"compiled");
        assert!(outer.path().join("b/abe-1.cwasm").exists());
    }

    #[test]
    fn a_file_that_others_may_change_and_a_link_are_not_used() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("a");
        let artifacts = ArtifactCache::open(Some(&dir)).unwrap();
        put(&artifacts, "abc-1.cwasm", b"code");
        std::os::unix::fs::symlink("abc-1.cwasm", dir.join("link.cwasm")).unwrap();
        assert!(artifacts.artifact("link.cwasm").is_err());
        fs::set_permissions(dir.join("abc-1.cwasm"), fs::Permissions::from_mode(0o620)).unwrap();
        let error = artifacts.artifact("abc-1.cwasm").err().unwrap();
        assert!(error.to_string().contains("mode 0620"), "{error}");
    }

    #[test]
    fn an_artifact_that_is_not_published_is_removed() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("a");
        let artifacts = ArtifactCache::open(Some(&dir)).unwrap();
        put(&artifacts, "abc-1.cwasm", b"");
        drop(artifacts.new_partial().unwrap());
        assert!(artifacts.has_module("abc") && !artifacts.has_module("abd"));
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
    }

    fn put(artifacts: &ArtifactCache, name: &str, code: &[u8]) {
        let partial = artifacts.new_partial().unwrap();
        partial.file.write_all_at(code, 0).unwrap();
        partial.publish(name).unwrap();
    }
}
