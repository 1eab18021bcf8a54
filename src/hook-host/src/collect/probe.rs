//! One attempt at one hook.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tokio::sync::Semaphore;

use super::census::Attempt;
use super::path;
use super::scan::{Id, Kind};
use crate::chain::{Body, Hook};
use crate::sidecar::{GreetError, Sidecar, greet};
use crate::wasm::{LoadError, Loader, Module};
use crate::{HookInfo, HookKind};

/// What attempts share.
#[derive(Clone)]
pub(super) struct Probe {
    hooks_dir: PathBuf,
    loader: Loader,
    /// Compiling takes all processors anyway; more at a time would only take memory.
    compiling: Arc<Semaphore>,
}

/// How an attempt went.
pub(super) enum Probed {
    Ready(Box<Hook>),
    NotReady(String),
    Flawed(String),
    Fatal(String),
}

impl Probe {
    pub(super) fn new(hooks_dir: &Path, loader: Loader) -> Self {
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            hooks_dir: hooks_dir.to_owned(),
            loader,
            compiling: Arc::new(Semaphore::new(at_once)),
        }
    }

    pub(super) async fn attempt(&self, attempt: &Attempt) -> Probed {
        match attempt.kind {
            Kind::Socket => self.socket(&attempt.id).await,
            Kind::Module => self.module(&attempt.id).await,
        }
    }

    async fn socket(&self, id: &Id) -> Probed {
        let path = path(&self.hooks_dir, id);
        match greet(&path).await {
            Ok(sidecar) => Probed::Ready(Box::new(from_sidecar(id, sidecar))),
            Err(GreetError::NotReady(reason)) => Probed::NotReady(reason),
            Err(error @ GreetError::Unusable(_)) => {
                Probed::Fatal(format!("hook sidecar {}: {error}", path.display()))
            }
        }
    }

    async fn module(&self, id: &Id) -> Probed {
        let path = path(&self.hooks_dir, id);
        let file = match self.open(id) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Probed::NotReady("file is gone".to_owned());
            }
            Err(error) => return Probed::Flawed(format!("{}: {error}", path.display())),
        };
        let Ok(_permit) = self.compiling.acquire().await else {
            return Probed::NotReady("collection ends".to_owned());
        };
        match self.loader.load_file(&file, &path, &id.directory).await {
            Ok(module) => Probed::Ready(Box::new(from_module(id, module))),
            Err(error) => refused(&error),
        }
    }

    /// Links are followed within the hook's own directory only, as for the listing.
    fn open(&self, id: &Id) -> io::Result<File> {
        let root = Dir::open_ambient_dir(&self.hooks_dir, ambient_authority())?;
        Ok(root.open_dir(&id.directory)?.open(&id.file)?.into_std())
    }
}

fn refused(error: &LoadError) -> Probed {
    if error.blames_the_file() {
        Probed::Flawed(error.to_string())
    } else {
        Probed::Fatal(error.to_string())
    }
}

fn from_sidecar(id: &Id, sidecar: Sidecar) -> Hook {
    let info = HookInfo {
        hook: id.directory.clone(),
        name: sidecar.name.clone(),
        version: String::new(),
        directory: id.directory.clone(),
        file: id.file.clone(),
        kind: HookKind::Sidecar {
            version: sidecar.version.name().to_owned(),
        },
        hook_points: sidecar.hook_points.clone(),
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        body: Body::Sidecar(sidecar),
    }
}

fn from_module(id: &Id, module: Module) -> Hook {
    let description = module.description().clone();
    let stem = id.file.strip_suffix(".wasm").unwrap_or(&id.file);
    let name = if description.name.is_empty() {
        stem.to_owned()
    } else {
        description.name
    };
    let info = HookInfo {
        hook: id.directory.clone(),
        name,
        version: description.version,
        directory: id.directory.clone(),
        file: id.file.clone(),
        kind: HookKind::Wasm {
            digest: module.digest().to_owned(),
        },
        hook_points: description.hook_points,
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        body: Body::Wasm(module),
    }
}
