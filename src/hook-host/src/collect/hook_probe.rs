//! Probes one hook: calls Info of a sidecar, or loads a module.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use tokio::sync::Semaphore;

use super::compile_slot_count::compile_slots;
use super::hook_file::{HookFileKind, HookId};
use super::hook_from_sidecar_or_module::{from_module, from_sidecar};
use super::readiness::ProbeAttempt;
use super::{CollectConfig, hook_path};
use crate::hook::Hook;
use crate::policy::module_signature::ModuleSignature;
use crate::policy::{
    HOOK_YAML, HookYaml, HostVersions, ModuleIdentity, OperatorPolicy, PolicyError, ResolveError,
    resolve, resolve_sidecar,
};
use crate::sidecar::{InfoError, Sidecar, query_info};
use crate::wasm::{self, Loader, Module};
use crate::{Limits, blocking_work};

/// Probes hooks of one directory. All probes of a collection share the loader and the policy.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) hooks_dir: PathBuf,
    pub(super) loader: Loader,
    /// Limits concurrent compilations.
    compile_slots: Arc<Semaphore>,
    pub(super) policy: Arc<PolicyContext>,
}

/// The inputs for resolving settings that all hooks share.
pub(super) struct PolicyContext {
    pub(super) operator: Option<OperatorPolicy>,
    pub(super) namespace: String,
    pub(super) limits: Limits,
    versions: HostVersions,
}

/// The result of a probe.
pub(super) enum ProbeResult {
    Ready(Box<Hook>),
    /// The hook is not available yet. The collection probes it again.
    NotReady(String),
    /// The hook cannot be used unless its files change.
    Flawed(String),
    /// The operator's policy or the `hook.yaml` forbids the hook, or something that its module declares.
    Refused(String),
    /// An error that ends the collection at once.
    Fatal(String),
}

impl ProbeResult {
    /// The result for a module whose settings cannot be resolved.
    pub(super) fn from_resolve_error(id: &HookId, error: &ResolveError) -> Self {
        let reason = format!("hook {id}: {error}");
        match error.is_refusal() {
            true => Self::Refused(reason),
            false => Self::Flawed(reason),
        }
    }
}

impl Probe {
    pub(super) fn new(
        config: &CollectConfig,
        loader: Loader,
        operator: Option<OperatorPolicy>,
    ) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = compile_slots(cpus, config.limits.compile_threads);
        Self {
            hooks_dir: config.hooks_dir.clone(),
            loader,
            compile_slots: Arc::new(Semaphore::new(slots)),
            policy: Arc::new(PolicyContext {
                operator,
                namespace: config.namespace.clone(),
                limits: config.limits.clone(),
                versions: config.versions.clone(),
            }),
        }
    }

    /// The same probe for hooks in another directory.
    pub(super) fn in_directory(&self, hooks_dir: &Path) -> Self {
        Self {
            hooks_dir: hooks_dir.to_owned(),
            ..self.clone()
        }
    }

    pub(super) async fn attempt(&self, attempt: &ProbeAttempt) -> ProbeResult {
        match attempt.kind {
            HookFileKind::Socket => self.probe_socket(&attempt.id).await,
            HookFileKind::Module => self.probe_module(&attempt.id).await,
        }
    }

    async fn probe_socket(&self, id: &HookId) -> ProbeResult {
        let path = hook_path(&self.hooks_dir, id);
        let (probe, hook_id) = (self.clone(), id.clone());
        let read = move || Ok(probe.read_yaml(&hook_id, &probe.open_directory(&hook_id)?));
        let yaml = match blocking_work::run(read).await.flatten() {
            Ok(Ok(yaml)) => yaml,
            Ok(Err(error)) => return ProbeResult::Flawed(error.to_string()),
            Err(error) => return ProbeResult::NotReady(error.to_string()),
        };
        if let Err(error) = self.check_required_versions(id, yaml.as_ref()) {
            return ProbeResult::Flawed(error);
        }
        match query_info(&path).await {
            Ok(sidecar) => self.resolve_sidecar_hook(id, sidecar, yaml.as_ref()),
            Err(InfoError::NotReady(reason)) => ProbeResult::NotReady(reason),
            Err(error @ InfoError::Unusable(_)) => {
                ProbeResult::Fatal(format!("hook sidecar {}: {error}", path.display()))
            }
        }
    }

    pub(super) async fn probe_module(&self, id: &HookId) -> ProbeResult {
        let path = hook_path(&self.hooks_dir, id);
        let (file, yaml) = match self.open_module(id).await {
            Ok((file, Ok(yaml))) => (file, yaml),
            Ok((_, Err(error))) => return ProbeResult::Flawed(error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return ProbeResult::NotReady("file is gone".to_owned());
            }
            Err(error) => return ProbeResult::Flawed(format!("{}: {error}", path.display())),
        };
        if let Err(error) = self.check_required_versions(id, yaml.as_ref()) {
            return ProbeResult::Flawed(error);
        }
        let Ok(_permit) = self.compile_slots.acquire().await else {
            return ProbeResult::NotReady("collection ends".to_owned());
        };
        match self.load(id, &file, &path, yaml.as_ref()).await {
            Ok((module, signature)) => self.resolve_module(id, module, yaml.as_ref(), &signature),
            Err(failure) => failure,
        }
    }

    /// Refuses a hook whose `hook.yaml` requires other versions than this host's, and logs requirements on versions
    /// that this host does not know.
    fn check_required_versions(&self, id: &HookId, yaml: Option<&HookYaml>) -> Result<(), String> {
        for unknown in self.unknown_versions(id, yaml)? {
            tracing::warn!(hook = %id, "{unknown}");
        }
        Ok(())
    }

    /// A message for each version that `hook.yaml` requires and this host does not know. The error is that a known
    /// version does not match.
    pub(super) fn unknown_versions(
        &self,
        id: &HookId,
        yaml: Option<&HookYaml>,
    ) -> Result<Vec<String>, String> {
        let Some(yaml) = yaml else {
            return Ok(Vec::new());
        };
        let required = yaml.require(&wasm::package_version(), &self.policy.versions);
        required.map_err(|error| format!("hook {id}: {error}"))
    }

    fn resolve_module(
        &self,
        id: &HookId,
        module: Module,
        yaml: Option<&HookYaml>,
        signature: &ModuleSignature,
    ) -> ProbeResult {
        let identity = ModuleIdentity {
            digest: module.digest(),
            namespace: &self.policy.namespace,
            signature,
            description: module.description(),
        };
        let (limits, operator) = (&self.policy.limits, self.policy.operator.as_ref());
        match resolve(identity, limits, yaml, operator) {
            Ok(settings) => ProbeResult::Ready(Box::new(from_module(id, module, settings))),
            Err(error) => ProbeResult::from_resolve_error(id, &error),
        }
    }

    fn resolve_sidecar_hook(
        &self,
        id: &HookId,
        sidecar: Sidecar,
        yaml: Option<&HookYaml>,
    ) -> ProbeResult {
        let (limits, operator) = (&self.policy.limits, self.policy.operator.as_ref());
        match resolve_sidecar(sidecar.hook_points.clone(), limits, yaml, operator) {
            Ok(settings) => ProbeResult::Ready(Box::new(from_sidecar(id, sidecar, settings))),
            Err(error @ ResolveError::Sidecar { .. }) => {
                ProbeResult::Fatal(format!("hook sidecar {id}: {error}"))
            }
            Err(error) => ProbeResult::Flawed(format!("hook sidecar {id}: {error}")),
        }
    }

    pub(super) async fn open_module(
        &self,
        id: &HookId,
    ) -> io::Result<(File, Result<Option<HookYaml>, PolicyError>)> {
        let (probe, id) = (self.clone(), id.clone());
        blocking_work::run(move || probe.open_module_blocking(&id)).await?
    }

    /// Opens a module and reads its `hook.yaml`. Links are followed within the hook's directory only.
    fn open_module_blocking(
        &self,
        id: &HookId,
    ) -> io::Result<(File, Result<Option<HookYaml>, PolicyError>)> {
        let directory = self.open_directory(id)?;
        // `O_NONBLOCK` does not wait for the writer of a FIFO. Loading refuses what is not a regular file.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = directory.open_with(&id.file, &options)?.into_std();
        Ok((file, self.read_yaml(id, &directory)))
    }

    pub(super) fn open_directory(&self, id: &HookId) -> io::Result<Dir> {
        Dir::open_ambient_dir(&self.hooks_dir, ambient_authority())?.open_dir(&id.directory)
    }

    fn read_yaml(&self, id: &HookId, directory: &Dir) -> Result<Option<HookYaml>, PolicyError> {
        let path = self.hooks_dir.join(&id.directory).join(HOOK_YAML);
        HookYaml::read(directory, &path)
    }
}
