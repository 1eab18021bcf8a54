//! Collects modules into a chain.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use hook_host::policy::{HostVersions, OperatorPolicy, UnknownVersion};
use hook_host::record::RecordConfig;
use hook_host::wasm::LoadError;
use hook_host::{Chain, CollectConfig, CollectError, Compiler, Limits, PolicySource};

use crate::cached_compilation::CachedCompilation;
use crate::compiled_module_cache::CompiledModuleCache;
use crate::hook_module::HookModule;
use crate::inputs::PodFactsInput;
use crate::interactive_compile::{self, HOST_NAME};
use crate::module_discovery;
use crate::verb_failure::{Failure, error_text};

/// Deadline of a collection. Modules are compiled before it starts.
const COLLECTION_DEADLINE: Duration = Duration::from_secs(120);
/// Deadline for the `Info` answer of a running sidecar.
const SIDECAR_INFO_DEADLINE: Duration = Duration::from_secs(10);

/// Options for collecting hooks.
#[derive(Debug)]
pub(crate) struct HookOptions {
    /// `None` for those of a developer's machine.
    pub(crate) limits: Option<Limits>,
    pub(crate) policy: PolicySource,
    /// The virtual machine's namespace, for rules of the policy; empty if unknown.
    pub(crate) namespace: String,
    /// The directory in which runs are recorded, if they are.
    pub(crate) record: Option<PathBuf>,
    /// Directories of the image with modules that were compiled for it.
    pub(crate) precompiled_dirs: Vec<PathBuf>,
    /// Whether records contain cloud-init data, which may be secret.
    pub(crate) secrets: bool,
    /// The source of the modules' code.
    pub(crate) code: ModuleCode,
    /// Facts about the pod.
    pub(crate) pod: PodFactsInput,
    /// The versions that `requires` of a hook.yaml is compared with.
    pub(crate) versions: HostVersions,
}

/// The source of the code of modules.
#[derive(Debug)]
pub(crate) enum ModuleCode {
    /// The caller has compiled them into this directory.
    Compiled(PathBuf),
    /// The modules are compiled after the policy has admitted them.
    Compile,
    /// As [`Self::Compile`], but code in the user's cache is used.
    FetchOrCompile,
}

/// The options on a developer's machine.
impl Default for HookOptions {
    fn default() -> Self {
        Self {
            limits: None,
            policy: PolicySource::default(),
            namespace: String::new(),
            record: None,
            precompiled_dirs: Vec::new(),
            secrets: false,
            code: ModuleCode::FetchOrCompile,
            pod: PodFactsInput::None,
            versions: HostVersions {
                unknown: UnknownVersion::Warn,
                ..HostVersions::default()
            },
        }
    }
}

/// Copies modules into a hooks directory below `work_dir`, as in a pod, and collects them. `work_dir` is
/// not needed afterwards.
///
/// Unless the caller has compiled the modules, each is first compiled from its copy, after the operator's policy has
/// admitted it: errors then come at once, while a collection waits for a file that may still be written.
pub(crate) async fn collect(
    modules: &[HookModule],
    work_dir: &Path,
    options: HookOptions,
) -> Result<Chain, Failure> {
    let artifacts_dir = match &options.code {
        ModuleCode::Compiled(dir) => dir.clone(),
        ModuleCode::Compile | ModuleCode::FetchOrCompile => work_dir.join("compiled"),
    };
    let is_interactive = options.limits.is_none();
    let limits = match options.limits {
        Some(limits) => limits,
        None => interactive_compile::limits()?,
    };
    let config = CollectConfig {
        hooks_dir: work_dir.join("hooks"),
        expected: modules.len(),
        deadline: COLLECTION_DEADLINE,
        artifacts_dir,
        precompiled_dirs: options.precompiled_dirs,
        compiler: Compiler::Child {
            program: std::env::current_exe()
                .context("finding this program")
                .map_err(Failure::Internal)?,
        },
        limits,
        host_name: HOST_NAME.to_owned(),
        policy: options.policy,
        namespace: options.namespace,
        versions: options.versions,
        record: options.record.map(|dir| RecordConfig {
            dir,
            secrets: options.secrets,
        }),
        pod: options.pod.config(work_dir)?,
        ..CollectConfig::default()
    };
    let record = config.record.as_ref();
    let has_own_record = record.is_some_and(|record| record.dir.starts_with(work_dir));
    let hooks_dir = config.hooks_dir.clone();
    let failure = |error: CollectError| {
        // The caller is responsible for a record directory that the caller has named.
        let is_refusal = matches!(error, CollectError::Refused(_));
        let is_internal = match &error {
            CollectError::Deadline { .. } | CollectError::StandingDeadline { .. } => true,
            CollectError::Record(_) => has_own_record,
            _ => false,
        };
        let error = anyhow!(with_caller_paths(&error.into(), modules, &hooks_dir));
        match (is_internal, is_refusal) {
            (true, _) => Failure::Internal(error),
            (_, true) => Failure::Refused(error),
            _ => Failure::Usage(error),
        }
    };
    for hook in modules {
        hook.lay_out(&hooks_dir, config.limits.module as u64)?;
    }
    let compile_times = match options.code {
        ModuleCode::Compiled(_) => Vec::new(),
        ModuleCode::Compile | ModuleCode::FetchOrCompile => {
            let loader = hook_host::admit_modules(&config).await.map_err(failure)?;
            let cache = match options.code {
                ModuleCode::FetchOrCompile => CompiledModuleCache::for_user(),
                ModuleCode::Compile | ModuleCode::Compiled(_) => None,
            };
            let compilation = CachedCompilation::new(cache, config.artifacts_dir.clone())?;
            let copies = modules.iter().map(|hook| (hook, hook.path_in(&hooks_dir)));
            let compiled = compilation.run(&loader, copies.collect()).await;
            compiled.map_err(|failure| {
                failure.map(|error| with_position_of_limit(error, &config.policy, &config.limits))
            })?
        }
    };
    // A service has warned when it started.
    if is_interactive && !compile_times.is_empty() {
        interactive_compile::warn_of_compiling(&config.limits);
    }
    let chain = hook_host::collect(config).await.map_err(failure)?;
    for info in chain.hooks() {
        let is_same_file =
            |hook: &HookModule| hook.directory == info.directory && hook.file_name() == *info.file;
        if let Some((_, took)) = compile_times.iter().find(|(hook, _)| is_same_file(hook)) {
            chain.metrics().set_compile_time(&info.hook, *took);
        }
    }
    Ok(chain)
}

/// Collects the hook sidecar that listens at `socket`. `work_dir` is a directory on the socket's file system.
pub(crate) async fn collect_socket(
    socket: &Path,
    work_dir: &Path,
    record: PathBuf,
) -> Result<Chain, Failure> {
    let socket_text = || socket.display().to_string();
    let hooks_dir = work_dir.join("hooks");
    let name = module_discovery::name(socket.file_stem(), socket).map_err(Failure::Usage)?;
    let directory = hooks_dir.join(name);
    fs::create_dir_all(&directory)
        // The collection follows no symbolic link out of its directory, but it accepts a hard link.
        .and_then(|()| fs::hard_link(socket, directory.join("hook.sock")))
        .with_context(socket_text)
        .map_err(Failure::Internal)?;
    let config = CollectConfig {
        hooks_dir,
        expected: 1,
        deadline: SIDECAR_INFO_DEADLINE,
        artifacts_dir: work_dir.join("compiled"),
        host_name: HOST_NAME.to_owned(),
        record: Some(RecordConfig {
            dir: record,
            secrets: true,
        }),
        ..CollectConfig::default()
    };
    let chain = hook_host::collect(config).await;
    chain.map_err(|error| match error {
        CollectError::Deadline { not_ready, .. } => Failure::internal(anyhow!(
            "{}: no hook sidecar answered there within {SIDECAR_INFO_DEADLINE:?}: {not_ready}",
            socket_text()
        )),
        error => Failure::Usage(anyhow::Error::new(error).context(socket_text())),
    })
}

/// Adds the position of the operator's memory limit to an error about a module that has too little memory.
fn with_position_of_limit(
    error: anyhow::Error,
    policy: &PolicySource,
    limits: &Limits,
) -> anyhow::Error {
    let load = error.downcast_ref::<LoadError>();
    let operator = OperatorPolicy::read(policy).ok().flatten();
    let position = operator.and_then(|operator| operator.lower_memory(limits.memory));
    match position.filter(|_| load.is_some_and(LoadError::exceeds_memory)) {
        Some(position) => anyhow!("{error}, as limits.memory of {position} says"),
        None => error,
    }
}

/// The text of an error, with the caller's paths in place of those of the copies.
fn with_caller_paths(error: &anyhow::Error, modules: &[HookModule], hooks_dir: &Path) -> String {
    let paths = modules
        .iter()
        .flat_map(|hook| hook.laid_out_paths(hooks_dir));
    paths.fold(error_text(error), |text, (from, to)| {
        text.replace(&from.display().to_string(), &to.display().to_string())
    })
}
