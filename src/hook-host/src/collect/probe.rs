//! One attempt at one hook.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tokio::sync::Semaphore;

use super::census::Attempt;
use super::path;
use super::scan::{Id, Kind};
use crate::chain::{Body, Hook};
use crate::policy::{
    HOOK_YAML, HookYaml, OperatorPolicy, PolicyError, Settings, SettleError, Subject, settle,
    settle_sidecar,
};
use crate::sidecar::{GreetError, Sidecar, greet};
use crate::wasm::{LoadError, Loader, Module};
use crate::{CollectConfig, HookInfo, HookKind, Limits};

/// What attempts share.
#[derive(Clone)]
pub(super) struct Probe {
    hooks_dir: PathBuf,
    loader: Loader,
    /// Compiling takes all processors anyway; more at a time would only take memory.
    compiling: Arc<Semaphore>,
    terms: Arc<Terms>,
}

/// What is the same for all hooks.
struct Terms {
    operator: Option<OperatorPolicy>,
    namespace: String,
    limits: Limits,
}

/// How an attempt went.
pub(super) enum Probed {
    Ready(Box<Hook>),
    NotReady(String),
    Flawed(String),
    Fatal(String),
}

impl Probe {
    pub(super) fn new(
        config: &CollectConfig,
        loader: Loader,
        operator: Option<OperatorPolicy>,
    ) -> Self {
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            hooks_dir: config.hooks_dir.clone(),
            loader,
            compiling: Arc::new(Semaphore::new(at_once)),
            terms: Arc::new(Terms {
                operator,
                namespace: config.namespace.clone(),
                limits: config.limits.clone(),
            }),
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
        let yaml = match self.directory(id) {
            Ok(directory) => match self.yaml(id, &directory) {
                Ok(yaml) => yaml,
                Err(error) => return Probed::Flawed(error.to_string()),
            },
            Err(error) => return Probed::NotReady(error.to_string()),
        };
        match greet(&path).await {
            Ok(sidecar) => self.take_sidecar(id, sidecar, yaml.as_ref()),
            Err(GreetError::NotReady(reason)) => Probed::NotReady(reason),
            Err(error @ GreetError::Unusable(_)) => {
                Probed::Fatal(format!("hook sidecar {}: {error}", path.display()))
            }
        }
    }

    async fn module(&self, id: &Id) -> Probed {
        let path = path(&self.hooks_dir, id);
        let (file, yaml) = match self.open(id) {
            Ok((file, Ok(yaml))) => (file, yaml),
            Ok((_, Err(error))) => return Probed::Flawed(error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Probed::NotReady("file is gone".to_owned());
            }
            Err(error) => return Probed::Flawed(format!("{}: {error}", path.display())),
        };
        let Ok(_permit) = self.compiling.acquire().await else {
            return Probed::NotReady("collection ends".to_owned());
        };
        let pin = yaml.as_ref().and_then(HookYaml::pin);
        let loading = self
            .loader
            .load_pinned(&file, &path, &id.directory, pin.as_ref());
        match loading.await {
            Ok(module) => self.take_module(id, module, yaml.as_ref()),
            Err(error) => refused(&error),
        }
    }

    fn take_module(&self, id: &Id, module: Module, yaml: Option<&HookYaml>) -> Probed {
        let subject = Subject {
            digest: module.digest(),
            namespace: &self.terms.namespace,
            description: module.description(),
        };
        let (limits, operator) = (&self.terms.limits, self.terms.operator.as_ref());
        match settle(subject, limits, yaml, operator) {
            Ok(settings) => Probed::Ready(Box::new(from_module(id, module, settings))),
            Err(error) => Probed::Flawed(format!("hook {id}: {error}")),
        }
    }

    fn take_sidecar(&self, id: &Id, sidecar: Sidecar, yaml: Option<&HookYaml>) -> Probed {
        let (limits, operator) = (&self.terms.limits, self.terms.operator.as_ref());
        match settle_sidecar(sidecar.hook_points.clone(), limits, yaml, operator) {
            Ok(settings) => Probed::Ready(Box::new(from_sidecar(id, sidecar, settings))),
            Err(error @ SettleError::Sidecar { .. }) => {
                Probed::Fatal(format!("hook sidecar {id}: {error}"))
            }
            Err(error) => Probed::Flawed(format!("hook sidecar {id}: {error}")),
        }
    }

    /// Links are followed within the hook's own directory only, as for the listing.
    fn open(&self, id: &Id) -> io::Result<(File, Result<Option<HookYaml>, PolicyError>)> {
        let directory = self.directory(id)?;
        let file = directory.open(&id.file)?.into_std();
        Ok((file, self.yaml(id, &directory)))
    }

    fn directory(&self, id: &Id) -> io::Result<Dir> {
        Dir::open_ambient_dir(&self.hooks_dir, ambient_authority())?.open_dir(&id.directory)
    }

    fn yaml(&self, id: &Id, directory: &Dir) -> Result<Option<HookYaml>, PolicyError> {
        let path = self.hooks_dir.join(&id.directory).join(HOOK_YAML);
        HookYaml::read(directory, &path)
    }
}

fn refused(error: &LoadError) -> Probed {
    if error.blames_the_file() {
        Probed::Flawed(error.to_string())
    } else {
        Probed::Fatal(error.to_string())
    }
}

fn from_sidecar(id: &Id, sidecar: Sidecar, settings: Settings) -> Hook {
    let info = HookInfo {
        hook: id.directory.clone(),
        name: sidecar.name.clone(),
        version: String::new(),
        directory: id.directory.clone(),
        file: id.file.clone(),
        kind: HookKind::Sidecar {
            version: sidecar.version.name().to_owned(),
        },
        hook_points: settings.hook_points.clone(),
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        settings,
        body: Body::Sidecar(sidecar),
    }
}

fn from_module(id: &Id, module: Module, settings: Settings) -> Hook {
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
        hook_points: settings.hook_points.clone(),
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        settings,
        body: Body::Wasm(module),
    }
}
