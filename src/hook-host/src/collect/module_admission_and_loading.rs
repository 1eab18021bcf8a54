//! Admits a module by the operator's policy and its `hook.yaml` before it is compiled, and loads it.

use std::fs::File;
use std::io;
use std::path::Path;

use super::hook_file::HookId;
use super::hook_path;
use super::hook_probe::{Probe, ProbeResult};
use crate::policy::module_signature::ModuleSignature;
use crate::policy::{HookYaml, ModuleIdentity, admit};
use crate::printable::{MAX_MESSAGE, printable};
use crate::wasm::{LoadError, Module, SealedModule};
use crate::{Description, blocking_work};

impl Probe {
    /// Checks whether `hook.yaml` and the operator's policy permit to compile a module. The error is the refusal.
    pub(super) async fn admit(&self, id: &HookId) -> Result<(), ProbeResult> {
        let path = hook_path(&self.hooks_dir, id);
        let flawed = |reason: String| ProbeResult::Flawed(reason);
        let opened = self.open_module(id).await;
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

    /// The digest of a module that is there, whether or not it may be loaded.
    pub(super) async fn module_digest(&self, id: &HookId) -> Option<String> {
        let (file, _) = self.open_module(id).await.ok()?;
        let path = hook_path(&self.hooks_dir, id);
        let sealed = self.loader.seal(&file, &path).await.ok()?;
        Some(sealed.digest().to_owned())
    }

    /// Loads a module. The operator's policy is checked before the module's content is parsed as WebAssembly, compiled
    /// or run, because "may not run" covers all three. The checked bytes are the compiled ones, because both come from
    /// one sealed copy.
    pub(super) async fn load(
        &self,
        id: &HookId,
        file: &File,
        path: &Path,
        yaml: Option<&HookYaml>,
    ) -> Result<(Module, ModuleSignature), ProbeResult> {
        let pin = yaml.and_then(HookYaml::pin);
        let pin = pin.as_ref();
        let failure = |error: LoadError| self.load_failure(&error);
        if self.policy.operator.is_none() {
            let loading = self.loader.load_pinned(file, path, &id.directory, pin);
            let module = loading.await.map_err(failure)?;
            return Ok((module, ModuleSignature::default()));
        }
        let sealed = self.loader.seal(file, path).await.map_err(failure)?;
        let admitted = self.admit_sealed(id, path, &sealed, yaml).await;
        let signature = admitted?;
        let loading = self.loader.load_sealed(&sealed, path, &id.directory, pin);
        Ok((loading.await.map_err(failure)?, signature))
    }

    /// Checks whether the policies permit to compile a sealed module, and returns its signature. The error is the
    /// refusal.
    async fn admit_sealed(
        &self,
        id: &HookId,
        path: &Path,
        sealed: &SealedModule,
        yaml: Option<&HookYaml>,
    ) -> Result<ModuleSignature, ProbeResult> {
        let signature = self.verify_signature(id, path, sealed).await;
        let identity = ModuleIdentity {
            digest: sealed.digest(),
            namespace: &self.policy.namespace,
            signature: &signature,
            description: &Description::default(),
        };
        match admit(identity, yaml, self.policy.operator.as_ref()) {
            Ok(()) => Ok(signature),
            Err(error) => Err(ProbeResult::from_resolve_error(id, &error)),
        }
    }

    /// Verifies the module's signature if a rule of the operator's policy names signers for the module.
    async fn verify_signature(
        &self,
        id: &HookId,
        path: &Path,
        sealed: &SealedModule,
    ) -> ModuleSignature {
        let (probe, id, path) = (self.clone(), id.clone(), path.to_owned());
        let sealed = sealed.clone();
        let verifying = blocking_work::run(move || {
            let operator = probe.policy.operator.as_ref();
            let namespace = &probe.policy.namespace;
            let signers = operator.map(|operator| operator.signers(sealed.digest(), namespace));
            let signers = signers.unwrap_or_default();
            if signers.is_empty() {
                return Ok(ModuleSignature::default());
            }
            let (content, dir) = (sealed.bytes()?, probe.open_directory(&id)?);
            Ok::<_, io::Error>(ModuleSignature::verify(
                &dir, &id.file, &path, &content, &signers,
            ))
        });
        match verifying.await {
            Ok(Ok(signature)) => signature,
            Ok(Err(error)) | Err(error) => ModuleSignature::unverified(&error.to_string()),
        }
    }

    /// The result for a module that could not be loaded. If the module exceeds a lower memory limit of the operator,
    /// the reason names that limit.
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
}
