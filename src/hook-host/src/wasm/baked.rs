//! Artifacts that were compiled when an image was built, and come with it.
//!
//! An artifact is machine code that runs with this program's rights, so where it lies decides
//! whether it is run at all ([`super::trust`]). Its name says what it is:
//! `MODULE-ENGINE-CONTENT.cwasm`, the sha256 of the module, a hash of what shapes machine code, and
//! a checksum of the file itself. One that does not fit is left alone, with a line in the log, and
//! the module is compiled as if there were none.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::artifact::{self, compatibility};
use super::error::LoadError;
use super::load::{Loader, Module, Options};
use super::trust::{Doubt, Trust};

/// A module compiled for an image.
#[derive(Clone)]
pub struct Baked {
    /// The file that was written; its name matters.
    pub artifact: PathBuf,
    /// Its bytes.
    pub size: u64,
    /// The module, loaded from what was compiled.
    pub module: Module,
}

/// A module that was not compiled for an image.
#[derive(Debug, thiserror::Error)]
pub enum BakeError {
    /// It is no usable hook.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The artifact could not be written.
    #[error("{path}: {source}")]
    Write {
        /// The directory, or the file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Compiles `module` for any machine of this architecture, loads and describes it to see that it is
/// a hook, and writes the artifact into the directory `into`, which is made when it is not there
/// (0755; artifacts are 0644, as an image has its files). Of `options`, the limits, the compiler and
/// the host's name count.
pub async fn bake(module: &Path, into: &Path, options: &Options) -> Result<Baked, BakeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| BakeError::Write { path, source }
    };
    let mut builder = DirBuilder::new();
    let made = builder.mode(0o755).recursive(true).create(into);
    made.map_err(failed(into))?;
    // Beside what is written: an image being built may have no /tmp.
    let workshop = Workshop(into.join(format!(".baking-{}", artifact::serial())));
    let loader = Loader::for_any_machine(options.clone(), &workshop.0);
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    let loaded = loader.load(module, &name).await?;
    let compiled = loader.artifact(&loaded).await?;
    let size = fs::metadata(&compiled).map_err(failed(&compiled))?.len();
    let artifact = write(&compiled, into, &loaded).map_err(failed(into))?;
    Ok(Baked {
        artifact,
        size,
        module: loaded,
    })
}

/// A directory that is gone when dropped.
struct Workshop(PathBuf);

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whole or not at all.
fn write(compiled: &Path, into: &Path, module: &Module) -> io::Result<PathBuf> {
    let content = artifact::checksum(&File::open(compiled)?)?;
    let key = compatibility(module.engine());
    let path = into.join(format!("{}-{key}-{content}.cwasm", module.digest()));
    fs::set_permissions(compiled, Permissions::from_mode(0o644))?;
    fs::rename(compiled, &path)?;
    Ok(path)
}

/// The directory that was named, which should be there, or else the usual one, if it is there.
#[must_use]
pub fn baked_dirs(named: Option<&Path>, usual: &Path) -> Vec<PathBuf> {
    match named {
        Some(dir) => vec![dir.to_owned()],
        None if usual.is_dir() => vec![usual.to_owned()],
        None => Vec::new(),
    }
}

/// The directories of an image that may hold artifacts; those that cannot be trusted are left out.
pub(super) struct Shelves {
    trust: Option<Trust>,
    dirs: Vec<PathBuf>,
}

impl Shelves {
    pub(super) fn open(dirs: &[PathBuf]) -> Self {
        if dirs.is_empty() {
            return Self {
                trust: None,
                dirs: Vec::new(),
            };
        }
        match Trust::of_this_program() {
            Ok(trust) => Self::trusted(trust, dirs),
            Err(doubt) => {
                tracing::warn!(?dirs, %doubt, "baked artifacts are not used");
                Self::open(&[])
            }
        }
    }

    fn trusted(trust: Trust, dirs: &[PathBuf]) -> Self {
        let told = |dir: &PathBuf| match trust.directory(dir) {
            Ok(dir) => Some(dir),
            Err(doubt) => {
                let dir = dir.display();
                tracing::warn!(%dir, %doubt, "no baked artifact of this directory is used");
                None
            }
        };
        Self {
            trust: Some(trust),
            dirs: dirs.iter().filter_map(told).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// The code of the module with this digest, if some directory has it and it is sound. `module`
    /// is what log lines call it.
    pub(super) fn find(
        &self,
        engine: &Engine,
        digest: &str,
        module: &Path,
    ) -> Option<(Component, PathBuf)> {
        let module = module.display();
        let mut seen = false;
        for path in self.dirs.iter().flat_map(|dir| named(dir, digest)) {
            seen = true;
            match self.load(engine, digest, &path) {
                Ok(component) => {
                    tracing::info!(%module, artifact = %path.display(), "a baked artifact is used");
                    return Some((component, path));
                }
                Err(reason) => {
                    let artifact = path.display();
                    tracing::warn!(%module, %artifact, %reason, "a baked artifact is not used: the module is compiled");
                }
            }
        }
        if !seen && !self.is_empty() {
            tracing::info!(%module, digest, dirs = ?self.dirs, "no baked artifact of this module: it is compiled");
        }
        None
    }

    fn load(&self, engine: &Engine, digest: &str, path: &Path) -> Result<Component, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = content(&name, digest, &compatibility(engine))?;
        let file = self.opened(path).map_err(|doubt| doubt.to_string())?;
        let found = artifact::checksum(&file).map_err(|error| error.to_string())?;
        if found != content {
            return Err(
                "it is truncated or was altered: its content is not what its name says".into(),
            );
        }
        // The file that was looked at, whatever is at its path by now.
        let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        artifact::load(engine, &open).map_err(|error| format!("{error:#}"))
    }

    fn opened(&self, path: &Path) -> Result<File, Doubt> {
        let io = |source| Doubt::Io {
            path: path.to_owned(),
            source,
        };
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .map_err(io)?;
        match &self.trust {
            Some(trust) => trust.file(&file, path).map(|()| file),
            None => Err(Doubt::OldKernel),
        }
    }
}

/// The artifacts of one module in a directory, whatever engine they are for.
fn named(dir: &Path, digest: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(digest))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// The content's checksum, when the rest of the name is as it should be.
fn content<'a>(name: &'a str, digest: &str, key: &str) -> Result<&'a str, String> {
    let parts = name
        .strip_suffix(".cwasm")
        .map(|name| name.split('-').collect::<Vec<_>>());
    match parts.as_deref() {
        Some([module, engine, content]) if *module == digest => {
            if *engine == key {
                return Ok(content);
            }
            Err(format!(
                "it is for another engine ({engine}, this one is {key}): bake it with this version's virt-hook"
            ))
        }
        _ => Err("its name is not MODULE-ENGINE-CONTENT.cwasm".into()),
    }
}

#[cfg(test)]
#[path = "baked_tests.rs"]
mod tests;
