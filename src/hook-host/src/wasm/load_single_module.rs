//! Loads one module from a file or from memory, with a new loader.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::load_error::LoadError;
use super::load_options::LoadOptions;
use super::loaded_module::Module;
use super::module_loader::Loader;

impl Module {
    /// Loads one module with a new loader.
    pub async fn load(path: &Path, options: LoadOptions) -> Result<Self, LoadError> {
        let name = path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into());
        Loader::new(options).load(path, &name).await
    }

    /// Loads one module from memory with a new loader.
    pub async fn from_bytes(
        bytes: &[u8],
        name: &str,
        options: LoadOptions,
    ) -> Result<Self, LoadError> {
        let path = PathBuf::from(format!("{name}.wasm"));
        let read_error = |source| LoadError::Read {
            path: path.clone(),
            source,
        };
        let mut file = rustix::fs::memfd_create("hook", rustix::fs::MemfdFlags::CLOEXEC)
            .map(File::from)
            .map_err(|errno| read_error(errno.into()))?;
        file.write_all(bytes).map_err(read_error)?;
        Loader::new(options).load_file(&file, &path, name).await
    }
}
