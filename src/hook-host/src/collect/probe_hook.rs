//! Probes one hook: calls a sidecar's Info, or loads a module.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use tokio::sync::Semaphore;

use super::list_hooks_directory::{HookFileKind, HookId};
use super::readiness::ProbeAttempt;
use super::{CollectConfig, hook_path};
use crate::hook::{Hook, HookInfo, HookKind};
use crate::off_worker;
use crate::policy::module_signature::ModuleSignature;
use crate::policy::{
    EffectiveSettings, HOOK_YAML, HookYaml, HostVersions, ModuleIdentity, OperatorPolicy,
    PolicyError, ResolveError, admit, resolve, resolve_sidecar,
};
use crate::printable::{MAX_MESSAGE, printable};
use crate::sidecar::{InfoError, Sidecar, query_info};
use crate::wasm::{self, CodeOrigin, LoadError, Loader, Module, SealedModule};
use crate::{Description, Limits};

/// The most compilations at once: each may need a GiB.
const MAX_COMPILE_SLOTS: usize = 4;

/// How many modules are compiled at once, each with so many threads: more than the processors only use memory.
fn compile_slots(processors: usize, threads: usize) -> usize {
    (processors / threads.max(1)).clamp(1, MAX_COMPILE_SLOTS)
}

/// What all probes share.
#[derive(Clone)]
pub(super) struct Probe {
    hooks_dir: PathBuf,
    loader: Loader,
    /// Limits concurrent compilations.
    compile_slots: Arc<Semaphore>,
    policy: Arc<PolicyContext>,
}

/// The policy inputs that all hooks share.
struct PolicyContext {
    operator: Option<OperatorPolicy>,
    namespace: String,
    limits: Limits,
    versions: HostVersions,
}

/// The result of a probe, with the hook.
pub(super) enum ProbeResult {
    Ready(Box<Hook>),
    NotReady(String),
    Flawed(String),
    /// It may not run, or not with what it declares.
    Refused(String),
    Fatal(String),
}

impl ProbeResult {
    /// A module whose settings cannot be resolved.
    fn unresolved(id: &HookId, error: &ResolveError) -> Self {
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
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = compile_slots(processors, config.limits.compile_threads);
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

    /// The same for hooks in another directory.
    pub(super) fn within(&self, hooks_dir: &Path) -> Self {
        Self {
            hooks_dir: hooks_dir.to_owned(),
            ..self.clone()
        }
    }

    pub(super) async fn attempt(&self, attempt: &ProbeAttempt) -> ProbeResult {
        match attempt.kind {
            HookFileKind::Socket => self.socket(&attempt.id).await,
            HookFileKind::Module => self.module(&attempt.id).await,
        }
    }

    async fn socket(&self, id: &HookId) -> ProbeResult {
        let path = hook_path(&self.hooks_dir, id);
        let (probe, wanted) = (self.clone(), id.clone());
        let read = move || Ok(probe.yaml(&wanted, &probe.directory(&wanted)?));
        let yaml = match off_worker::run(read).await.flatten() {
            Ok(Ok(yaml)) => yaml,
            Ok(Err(error)) => return ProbeResult::Flawed(error.to_string()),
            Err(error) => return ProbeResult::NotReady(error.to_string()),
        };
        if let Err(error) = self.require(id, yaml.as_ref()) {
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

    pub(super) async fn module(&self, id: &HookId) -> ProbeResult {
        let path = hook_path(&self.hooks_dir, id);
        let (file, yaml) = match self.open(id).await {
            Ok((file, Ok(yaml))) => (file, yaml),
            Ok((_, Err(error))) => return ProbeResult::Flawed(error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return ProbeResult::NotReady("file is gone".to_owned());
            }
            Err(error) => return ProbeResult::Flawed(format!("{}: {error}", path.display())),
        };
        if let Err(error) = self.require(id, yaml.as_ref()) {
            return ProbeResult::Flawed(error);
        }
        let Ok(_permit) = self.compile_slots.acquire().await else {
            return ProbeResult::NotReady("collection ends".to_owned());
        };
        match self.load(id, &file, &path, yaml.as_ref()).await {
            Ok((module, signature)) => self.resolve_module(id, module, yaml.as_ref(), &signature),
            Err(refused) => refused,
        }
    }

    /// Asks `hook.yaml` and the operator's policy whether a module may be compiled. The error is the refusal.
    pub(super) async fn admit(&self, id: &HookId) -> Result<(), ProbeResult> {
        let path = hook_path(&self.hooks_dir, id);
        let flawed = |reason: String| ProbeResult::Flawed(reason);
        let opened = self.open(id).await;
        let opened = opened.map_err(|error| flawed(format!("{}: {error}", path.display())));
        let (file, yaml) = opened?;
        let yaml = yaml.map_err(|error| flawed(error.to_string()))?;
        let yaml = yaml.as_ref();
        self.unknown_versions(id, yaml).map_err(flawed)?;
        if self.policy.operator.is_none() && yaml.and_then(HookYaml::pin).is_none() {
            return Ok(());
        }
        let sealed = self.loader.seal(&file, &path).await;
        let sealed = sealed.map_err(|error| self.load_failure(&error))?;
        let admitted = self.admit_sealed(id, &path, &sealed, yaml).await;
        admitted.map(drop)
    }

    /// Refuses a hook that requires other versions than those around it.
    fn require(&self, id: &HookId, yaml: Option<&HookYaml>) -> Result<(), String> {
        for unknown in self.unknown_versions(id, yaml)? {
            tracing::warn!(hook = %id, "{unknown}");
        }
        Ok(())
    }

    /// The versions that the hook requires and that are not known here. The error is that others are required.
    fn unknown_versions(
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

    /// Loads a module. The operator's policy is asked before the module's content is read as WebAssembly, compiled or
    /// run, because "may not run" covers all of them; the bytes that it is asked about are those that are compiled.
    async fn load(
        &self,
        id: &HookId,
        file: &File,
        path: &Path,
        yaml: Option<&HookYaml>,
    ) -> Result<(Module, ModuleSignature), ProbeResult> {
        let pin = yaml.and_then(HookYaml::pin);
        let pin = pin.as_ref();
        let failed = |error: LoadError| self.load_failure(&error);
        if self.policy.operator.is_none() {
            let loading = self.loader.load_pinned(file, path, &id.directory, pin);
            let module = loading.await.map_err(failed)?;
            return Ok((module, ModuleSignature::default()));
        }
        let sealed = self.loader.seal(file, path).await.map_err(failed)?;
        let admitted = self.admit_sealed(id, path, &sealed, yaml).await;
        let signature = admitted?;
        let loading = self.loader.load_sealed(&sealed, path, &id.directory, pin);
        Ok((loading.await.map_err(failed)?, signature))
    }

    /// The signature of a module that may be compiled. The error is the refusal.
    async fn admit_sealed(
        &self,
        id: &HookId,
        path: &Path,
        sealed: &SealedModule,
        yaml: Option<&HookYaml>,
    ) -> Result<ModuleSignature, ProbeResult> {
        let signature = self.signature(id, path, sealed).await;
        let identity = ModuleIdentity {
            digest: sealed.digest(),
            namespace: &self.policy.namespace,
            signature: &signature,
            description: &Description::default(),
        };
        match admit(identity, yaml, self.policy.operator.as_ref()) {
            Ok(()) => Ok(signature),
            Err(error) => Err(ProbeResult::unresolved(id, &error)),
        }
    }

    /// Verifies the module's signature if the operator's policy asks for one.
    async fn signature(&self, id: &HookId, path: &Path, sealed: &SealedModule) -> ModuleSignature {
        let (probe, id, path) = (self.clone(), id.clone(), path.to_owned());
        let sealed = sealed.clone();
        let verifying = off_worker::run(move || {
            let operator = probe.policy.operator.as_ref();
            let namespace = &probe.policy.namespace;
            let signers = operator.map(|operator| operator.signers(sealed.digest(), namespace));
            let signers = signers.unwrap_or_default();
            if signers.is_empty() {
                return Ok(ModuleSignature::default());
            }
            let (content, dir) = (sealed.bytes()?, probe.directory(&id)?);
            Ok::<_, io::Error>(ModuleSignature::verify(
                &dir, &id.file, &path, &content, &signers,
            ))
        });
        match verifying.await {
            Ok(Ok(signature)) => signature,
            Ok(Err(error)) | Err(error) => ModuleSignature::unverified(&error.to_string()),
        }
    }

    /// A module that could not be loaded. A lower limit of the operator is named, since no other module will do.
    fn load_failure(&self, error: &LoadError) -> ProbeResult {
        let mut reason = printable(&error.to_string(), MAX_MESSAGE);
        if !error.is_fault_of_module() {
            return ProbeResult::Fatal(reason);
        }
        let operator = self.policy.operator.as_ref();
        let lower = operator.and_then(|operator| operator.lower_memory(self.policy.limits.memory));
        if let Some(place) = lower.filter(|_| error.exceeds_memory()) {
            reason = format!("{reason}, as limits.memory of {place} says");
        }
        ProbeResult::Flawed(reason)
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
            Err(error) => ProbeResult::unresolved(id, &error),
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

    async fn open(&self, id: &HookId) -> io::Result<(File, Result<Option<HookYaml>, PolicyError>)> {
        let (probe, id) = (self.clone(), id.clone());
        off_worker::run(move || probe.open_blocking(&id)).await?
    }

    /// Opens a module and reads its `hook.yaml`. Links are followed within the hook's directory only.
    fn open_blocking(
        &self,
        id: &HookId,
    ) -> io::Result<(File, Result<Option<HookYaml>, PolicyError>)> {
        let directory = self.directory(id)?;
        // Do not block on a pipe without a writer; what is not a regular file is refused when it is loaded.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = directory.open_with(&id.file, &options)?.into_std();
        Ok((file, self.yaml(id, &directory)))
    }

    fn directory(&self, id: &HookId) -> io::Result<Dir> {
        Dir::open_ambient_dir(&self.hooks_dir, ambient_authority())?.open_dir(&id.directory)
    }

    fn yaml(&self, id: &HookId, directory: &Dir) -> Result<Option<HookYaml>, PolicyError> {
        let path = self.hooks_dir.join(&id.directory).join(HOOK_YAML);
        HookYaml::read(directory, &path)
    }
}

fn from_sidecar(id: &HookId, sidecar: Sidecar, settings: EffectiveSettings) -> Hook {
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
        compile_time: None,
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        settings,
        body: Box::new(sidecar),
    }
}

fn from_module(id: &HookId, module: Module, settings: EffectiveSettings) -> Hook {
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
        compile_time: match module.code_origin() {
            CodeOrigin::Compiled { took, .. } => Some(*took),
            CodeOrigin::Precompiled { .. } | CodeOrigin::Cached => None,
        },
        ready_after: Duration::ZERO,
    };
    Hook {
        info,
        settings,
        body: Box::new(module),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_compiled_at_once_share_the_processors() {
        for (processors, threads, slots) in [
            (1, 4, 1),
            (2, 4, 1),
            (4, 4, 1),
            (4, 1, 4),
            (8, 4, 2),
            (64, 4, 4),
            (64, 0, 4),
        ] {
            assert_eq!(
                compile_slots(processors, threads),
                slots,
                "{processors} {threads}"
            );
        }
    }
}
