//! Modules that tests have loaded, each once per process.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use hook_host::wasm::{LoadError, Module, Options};
use tempfile::TempDir;

use super::build::{self, BuildError, Part, Target};

/// Why there is no hook to test.
#[derive(Debug)]
pub enum Error {
    /// It was not built.
    Build(BuildError),
    /// The host does not take it.
    Load(LoadError),
    /// No runtime for the host.
    Runtime(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Build(error) => error.fmt(f),
            Error::Load(error) => error.fmt(f),
            Error::Runtime(error) => write!(f, "no runtime for the hook host: {error}"),
        }
    }
}

impl std::error::Error for Error {}

type Key = (PathBuf, Part, Target);

static LOADED: Mutex<Option<HashMap<Key, (Module, PathBuf)>>> = Mutex::new(None);

/// The module of a crate and its path, built and loaded when this is the first time.
pub(super) fn built(dir: &Path, part: Part, target: Target) -> Result<(Module, PathBuf), Error> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    let key = (dir.to_owned(), part, target);
    if let Some(known) = loaded.get(&key) {
        return Ok(known.clone());
    }
    let path = build::build(dir, &key.1, target).map_err(Error::Build)?;
    let module = load(&path)?;
    loaded.insert(key, (module.clone(), path.clone()));
    Ok((module, path))
}

pub(super) fn load(path: &Path) -> Result<Module, Error> {
    let options = Options {
        artifacts_dir: Some(artifacts(path).map_err(Error::Runtime)?),
        ..Options::default()
    };
    let loading = Module::load(path, options);
    block_on(loading)
        .map_err(Error::Runtime)?
        .map_err(Error::Load)
}

/// Where what a module is compiled to is kept: in Cargo's target directory, if that is where the
/// module is, so that the next test finds it; else as long as this process runs.
pub(super) fn artifacts(module: &Path) -> io::Result<PathBuf> {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    let mut above = module.ancestors().skip(1);
    if let Some(target) = above.find(|dir| dir.join("CACHEDIR.TAG").is_file()) {
        return Ok(target.join("compiled"));
    }
    if DIR.get().is_none() {
        // Another thread may be faster: then this one is not needed.
        let _ = DIR.set(tempfile::tempdir()?);
    }
    // The host wants to make it itself, for its own eyes.
    let made = DIR.get().map(|dir| dir.path().join("compiled"));
    Ok(made.unwrap_or_default())
}

pub(super) fn block_on<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(work))
}
