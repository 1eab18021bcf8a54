//! One side of a comparison: modules, a script, a sidecar, or no hook.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use hook_host::policy::OperatorPolicy;
use hook_host::{HookPoint, PolicySource};

use super::sidecar_shim_script::Script;
use super::vmi_comparison::VmiOutcome;
use crate::cached_compilation;
use crate::exit_codes::Failure;
use crate::inputs::{PodFactsInput, VmiInput};
use crate::module_chain::{self, HookOptions, ModuleCode};
use crate::module_files::{self, HookModule};
use crate::run_hooks_as_launcher::Hooks;
use crate::tokio_runtime::runtime;

/// Where a module or a sidecar can change a VM's start.
const POINTS: [HookPoint; 3] = [
    HookPoint::PreStart,
    HookPoint::PreCloudInitIso,
    HookPoint::OnDefineDomain,
];
/// Where a module can do what a script does: a script that ends with an error vetoes, for which modules have PreStart.
const POINTS_OF_SCRIPT: [HookPoint; 2] = [HookPoint::PreStart, HookPoint::OnDefineDomain];

/// What modules may do, and what they know of the pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) policy: Option<&'a Path>,
    pub(super) pod: Option<&'a Path>,
}

/// One side of a comparison.
pub(super) enum ComparedHook {
    Hooks(Box<Hooks>),
    Namespaced(Box<NamespacedHooks>),
    Script(Script),
    /// Modules that may not run, and why.
    Refused(String),
    /// The domain as KubeVirt has it.
    Nothing,
}

impl ComparedHook {
    /// A module, a socket or a script; the kind follows from the file.
    pub(super) fn of(path: &Path, options: Options<'_>, work_dir: &Path) -> Result<Self, Failure> {
        let metadata = fs::metadata(path)
            .with_context(|| path.display().to_string())
            .map_err(Failure::Usage)?;
        if metadata.file_type().is_socket() {
            return Hooks::of_socket(path).map(|hooks| Self::Hooks(hooks.into()));
        }
        let is_module = path
            .extension()
            .is_some_and(|extension| extension == "wasm");
        if metadata.is_dir() || is_module {
            return Self::of_modules(&[path.to_owned()], options, work_dir);
        }
        Script::of(path).map(Self::Script)
    }

    /// Modules that are granted what they declare, unless there is a policy.
    pub(super) fn of_modules(
        paths: &[PathBuf],
        options: Options<'_>,
        work_dir: &Path,
    ) -> Result<Self, Failure> {
        let found = module_files::find(paths).map_err(Failure::Usage)?;
        let compiled = work_dir.join("compiled");
        cached_compilation::compile_once(&found, &compiled)?;
        let policy = match options.policy {
            Some(policy) => policy.to_owned(),
            None => {
                let mut descriptions = Vec::new();
                for hook in &found {
                    let loaded = runtime()?.block_on(module_chain::load(&hook.module, &compiled));
                    let module = loaded
                        .map_err(Failure::Machine)?
                        .map_err(Failure::of_load)?;
                    descriptions.push(module.description().clone());
                }
                module_chain::write_granting_policy(&descriptions, work_dir)
                    .map_err(Failure::Machine)?
            }
        };
        let policy = PolicySource::File(policy);
        let operator = OperatorPolicy::read(&policy).map_err(Failure::usage)?;
        let hooks = NamespacedHooks {
            found,
            policy,
            compiled,
            pod: PodFactsInput::of_file(options.pod),
            collected: None,
        };
        if operator.is_some_and(|operator| operator.names_namespaces()) {
            return Ok(Self::Namespaced(hooks.into()));
        }
        match hooks.collect("") {
            Ok(hooks) => Ok(Self::Hooks(hooks.into())),
            Err(refusal @ Failure::Refused(_)) => Ok(Self::Refused(refusal.to_string())),
            Err(failure) => Err(failure),
        }
    }

    /// The hook points that both sides have.
    pub(super) fn points(&self, other: &Self) -> Vec<HookPoint> {
        match (self, other) {
            (Self::Script(_), _) | (_, Self::Script(_)) => POINTS_OF_SCRIPT.to_vec(),
            _ => POINTS.to_vec(),
        }
    }

    /// Whether it is called for a VM of this namespace at one of the hook points. What may not run there counts as called.
    pub(super) fn is_called_at(
        &mut self,
        points: &[HookPoint],
        namespace: &str,
    ) -> Result<bool, Failure> {
        let is_called = |hooks: &Hooks| points.iter().any(|point| hooks.are_called_at(*point));
        Ok(match self {
            Self::Hooks(hooks) => is_called(hooks),
            Self::Namespaced(hooks) => hooks.of(namespace)?.as_ref().map_or(true, is_called),
            Self::Script(_) | Self::Refused(_) => true,
            Self::Nothing => false,
        })
    }

    pub(super) fn run(
        &mut self,
        input: &VmiInput,
        points: &[HookPoint],
    ) -> Result<VmiOutcome, Failure> {
        match self {
            Self::Hooks(hooks) => run(hooks, input, points),
            Self::Namespaced(hooks) => match hooks.of(&input.invocation.namespace)? {
                Ok(hooks) => run(hooks, input, points),
                Err(refusal) => Ok(VmiOutcome::NotRun(refusal.clone())),
            },
            Self::Script(script) => script.run(input),
            Self::Refused(refusal) => Ok(VmiOutcome::NotRun(refusal.clone())),
            Self::Nothing => Ok(VmiOutcome::unchanged(input)),
        }
    }
}

fn run(hooks: &Hooks, input: &VmiInput, points: &[HookPoint]) -> Result<VmiOutcome, Failure> {
    // Data in Secrets is only in the cluster; `compare` tells for how many VMIs.
    let has_data = input.cloud_init.is_ok();
    let points: Vec<HookPoint> = points
        .iter()
        .copied()
        .filter(|point| has_data || *point != HookPoint::PreCloudInitIso)
        .collect();
    Ok(VmiOutcome::of_hooks(input, hooks.run(input, &points)?))
}

/// Modules under a policy whose rules name namespaces.
pub(super) struct NamespacedHooks {
    found: Vec<HookModule>,
    policy: PolicySource,
    compiled: PathBuf,
    pod: PodFactsInput,
    /// The hooks of the namespace that was asked for last, or why they may not run there. `kubectl get -A` lists by namespace.
    collected: Option<(String, Result<Hooks, String>)>,
}

impl NamespacedHooks {
    fn of(&mut self, namespace: &str) -> Result<&Result<Hooks, String>, Failure> {
        let hooks = match self.collected.take() {
            Some((known, hooks)) if known == namespace => hooks,
            _ => match self.collect(namespace) {
                Ok(hooks) => Ok(hooks),
                Err(failure @ Failure::Machine(_)) => return Err(failure),
                Err(refusal) => Err(refusal.to_string()),
            },
        };
        let collected = self.collected.insert((namespace.to_owned(), hooks));
        Ok(&collected.1)
    }

    fn collect(&self, namespace: &str) -> Result<Hooks, Failure> {
        let options = HookOptions {
            policy: self.policy.clone(),
            namespace: namespace.to_owned(),
            code: ModuleCode::Compiled(self.compiled.clone()),
            pod: self.pod.clone(),
            ..HookOptions::default()
        };
        Hooks::collect(&self.found, options)
    }
}
