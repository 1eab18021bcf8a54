//! Builds and loads modules for tests, each once per process.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use hook_host::wasm::{LoadOptions, Module};
use tempfile::TempDir;

use crate::current_thread_runtime::block_on;
use crate::error::Error;
use crate::module_build::{self, Part, Target};

type Key = (PathBuf, Part, Target);

static LOADED: Mutex<Option<HashMap<Key, (Module, PathBuf)>>> = Mutex::new(None);

/// The module of a crate and its path, built and loaded at the first call.
pub(crate) fn build_and_load(
    dir: &Path,
    part: Part,
    target: Target,
) -> Result<(Module, PathBuf), Error> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    let key = (dir.to_owned(), part, target);
    if let Some(known) = loaded.get(&key) {
        return Ok(known.clone());
    }
    let path = module_build::build(dir, &key.1, target).map_err(Error::Build)?;
    let module = load(&path)?;
    loaded.insert(key, (module.clone(), path.clone()));
    Ok((module, path))
}

pub(crate) fn load(path: &Path) -> Result<Module, Error> {
    let options = LoadOptions {
        artifacts_dir: Some(artifacts(path).map_err(Error::Runtime)?),
        ..LoadOptions::default()
    };
    let loading = Module::load(path, options);
    block_on(loading)
        .map_err(Error::Runtime)?
        .map_err(Error::Load)
}

/// The directory of compiled artifacts: in Cargo's target directory, if the module is there, so that
/// the next test finds the artifact; else a temporary one of this process.
pub(crate) fn artifacts(module: &Path) -> io::Result<PathBuf> {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let mut above = module.ancestors().skip(1);
    if let Some(target) = above.find(|dir| dir.join("CACHEDIR.TAG").is_file()) {
        return Ok(target.join("compiled"));
    }
    if DIR.get().is_none() {
        // If another thread was faster, its directory is used.
        let _ = DIR.set(tempfile::tempdir()?);
    }
    // The host creates the directory itself, with private permissions.
    let made = DIR.get().map(|dir| dir.path().join("compiled"));
    Ok(made.unwrap_or_default())
}
