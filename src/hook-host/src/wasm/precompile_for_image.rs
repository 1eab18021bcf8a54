//! Compiles a module when a container image is built, and writes the artifact.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::artifact_cache::{self, engine_key};
use super::file_digest;
use super::load_error::LoadError;
use super::load_options::LoadOptions;
use super::loaded_module::Module;
use super::module_loader::Loader;

/// A module that was compiled for an image.
#[derive(Clone)]
pub struct PrecompiledModule {
    /// The path of the artifact. Loading depends on its file name.
    pub artifact: PathBuf,
    /// Size of the artifact in bytes.
    pub size: u64,
    /// The module, loaded from the compiled code.
    pub module: Module,
}

/// Why a module could not be compiled for an image.
#[derive(Debug, thiserror::Error)]
pub enum PrecompileError {
    /// The module is not a usable hook.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The artifact could not be written.
    #[error("{path}: {source}")]
    Write {
        /// The directory, or the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Compiles `module` for any machine of this architecture, loads and describes it to verify that it
/// is a hook, and writes the artifact into the directory `into`, which is created if it is missing
/// (mode 0755; artifacts have 0644, as is usual in an image). Of `options`, only the limits, the
/// compiler and the host's name are used.
pub async fn precompile(
    module: &Path,
    into: &Path,
    options: &LoadOptions,
) -> Result<PrecompiledModule, PrecompileError> {
    let write_error = |path: &Path| {
        let path = path.to_owned();
        move |source| PrecompileError::Write { path, source }
    };
    let mut builder = DirBuilder::new();
    let created = builder.mode(0o755).recursive(true).create(into);
    created.map_err(write_error(into))?;
    // The staging directory is in the target directory, because an image that is being built may have no /tmp.
    let staging = StagingDir(into.join(format!(".staging-{}", artifact_cache::unique_suffix())));
    let loader = Loader::for_any_machine(options.clone(), &staging.0);
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    let loaded = loader.load(module, &name).await?;
    let compiled = loader.artifact_path(&loaded).await?;
    let size = fs::metadata(&compiled)
        .map_err(write_error(&compiled))?
        .len();
    let artifact = move_into_place(&compiled, into, &loaded).map_err(write_error(into))?;
    Ok(PrecompiledModule {
        artifact,
        size,
        module: loaded,
    })
}

/// A directory that is removed on drop.
struct StagingDir(PathBuf);

impl Drop for StagingDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Renames the artifact to its final name, so that no partial file has that name.
fn move_into_place(compiled: &Path, into: &Path, module: &Module) -> io::Result<PathBuf> {
    let checksum = file_digest::checksum(&File::open(compiled)?)?;
    let key = engine_key(module.engine());
    let path = into.join(format!("{}-{key}-{checksum}.cwasm", module.digest()));
    fs::set_permissions(compiled, Permissions::from_mode(0o644))?;
    fs::rename(compiled, &path)?;
    Ok(path)
}
