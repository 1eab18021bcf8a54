//! Loads modules and collects them into a chain.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use hook_host::policy::{HostVersions, UnknownVersion, names_dangerous};
use hook_host::record::RecordConfig;
use hook_host::wasm::{CodeOrigin, LoadError, LoadOptions, Loader, Module};
use hook_host::{
    Chain, CollectConfig, CollectError, Compiler, Description, Limits, PodPattern, PolicySource,
};
use serde_json::json;

use crate::cgroup_limits::smallest_limits;
use crate::compiled_module_cache::{CompiledModuleCache, make_private};
use crate::exit_codes::{Failure, error_text};
use crate::inputs::PodFacts;
use crate::interactive_compile::{self, HOST};
use crate::module_compile_cost::ModuleCompileCost;
use crate::module_files::{self, HookModule};
use crate::tokio_runtime::runtime;

/// Deadline of a collection. Modules are compiled before it starts.
const DEADLINE: Duration = Duration::from_secs(120);
/// How long a running sidecar may take to say what it is.
const SIDECAR_DEADLINE: Duration = Duration::from_secs(10);

/// Options for collecting hooks.
#[derive(Debug)]
pub(crate) struct HookOptions {
    pub(crate) limits: Limits,
    pub(crate) policy: PolicySource,
    /// The virtual machine's namespace, for rules of the policy; empty if unknown.
    pub(crate) namespace: String,
    /// Where runs are recorded, if at all.
    pub(crate) record: Option<PathBuf>,
    /// Directories of the image with modules that were compiled for it.
    pub(crate) precompiled_dirs: Vec<PathBuf>,
    /// Whether records contain cloud-init data, which may be secret.
    pub(crate) secrets: bool,
    /// Where compiled modules are kept; `None`: they are not kept.
    pub(crate) artifacts: Option<PathBuf>,
    /// Facts about the pod.
    pub(crate) pod: PodFacts,
    /// The versions that `requires` of a hook.yaml is compared with.
    pub(crate) versions: HostVersions,
}

/// The options of a developer's machine.
impl Default for HookOptions {
    fn default() -> Self {
        Self {
            limits: interactive_compile::limits(),
            policy: PolicySource::default(),
            namespace: String::new(),
            record: None,
            precompiled_dirs: Vec::new(),
            secrets: false,
            artifacts: None,
            pod: PodFacts::None,
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
/// Each module is first loaded from its own path: errors then name this path and come at once,
/// while a collection waits for a file that may still be written.
pub(crate) async fn collect(
    found: &[HookModule],
    work_dir: &Path,
    options: HookOptions,
) -> Result<Chain, Failure> {
    let config = CollectConfig {
        hooks_dir: work_dir.join("hooks"),
        expected: found.len(),
        deadline: DEADLINE,
        artifacts_dir: options
            .artifacts
            .unwrap_or_else(|| work_dir.join("compiled")),
        precompiled_dirs: options.precompiled_dirs,
        compiler: Compiler::Child {
            program: std::env::current_exe()
                .context("finding this program")
                .map_err(Failure::Machine)?,
        },
        limits: options.limits,
        host_name: HOST.to_owned(),
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
    let options = LoadOptions {
        limits: config.limits.clone(),
        compiler: config.compiler.clone(),
        artifacts_dir: Some(config.artifacts_dir.clone()),
        precompiled_dirs: config.precompiled_dirs.clone(),
        host_name: config.host_name.clone(),
    };
    let compile_times = compile(found, options).await?;
    let record = config.record.as_ref();
    let has_own_record = record.is_some_and(|record| record.dir.starts_with(work_dir));
    for hook in found {
        hook.lay_out(&config.hooks_dir)?;
    }
    let hooks_dir = config.hooks_dir.clone();
    let chain = hook_host::collect(config).await;
    let chain = chain.map_err(|error| {
        // A directory of records that the caller named is the caller's too.
        let is_of_machine = match &error {
            CollectError::Deadline { .. } | CollectError::StandingDeadline { .. } => true,
            CollectError::Record(_) => has_own_record,
            _ => false,
        };
        let error = anyhow!(with_caller_paths(&error.into(), found, &hooks_dir));
        match is_of_machine {
            true => Failure::Machine(error),
            false => Failure::Usage(error),
        }
    })?;
    for info in chain.hooks() {
        let is_its =
            |hook: &HookModule| hook.directory == info.directory && hook.file_name() == *info.file;
        if let Some((_, took)) = compile_times.iter().find(|(hook, _)| is_its(hook)) {
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
    let named = || socket.display().to_string();
    let hooks_dir = work_dir.join("hooks");
    let name = module_files::name(socket.file_stem(), socket).map_err(Failure::Usage)?;
    let directory = hooks_dir.join(name);
    fs::create_dir_all(&directory)
        // The collection follows no link out of its directory; a hard link is none.
        .and_then(|()| fs::hard_link(socket, directory.join("hook.sock")))
        .with_context(named)
        .map_err(Failure::Machine)?;
    let config = CollectConfig {
        hooks_dir,
        expected: 1,
        deadline: SIDECAR_DEADLINE,
        artifacts_dir: work_dir.join("compiled"),
        host_name: HOST.to_owned(),
        record: Some(RecordConfig {
            dir: record,
            secrets: true,
        }),
        ..CollectConfig::default()
    };
    let chain = hook_host::collect(config).await.with_context(named);
    chain.map_err(Failure::Usage)
}

/// The text of an error with the caller's paths instead of those of the copies.
fn with_caller_paths(error: &anyhow::Error, found: &[HookModule], hooks_dir: &Path) -> String {
    let paths = found.iter().flat_map(|hook| hook.laid_out_paths(hooks_dir));
    paths.fold(error_text(error), |text, (from, to)| {
        text.replace(&from.display().to_string(), &to.display().to_string())
    })
}

/// Like [`load`], with the code that an earlier run compiled, which goes into `kept`. Also returns what compiling cost.
pub(crate) fn load_once(
    path: &Path,
    kept: &Path,
) -> Result<Result<(Module, ModuleCompileCost), LoadError>, Failure> {
    make_private(kept)
        .with_context(|| kept.display().to_string())
        .map_err(Failure::Machine)?;
    let cache = CompiledModuleCache::of_user();
    cache
        .iter()
        .for_each(|cache| cache.fetch_measured(path, kept));
    let loaded = runtime()?.block_on(load(path, kept));
    let loaded = loaded.map_err(Failure::Machine)?;
    cache.iter().for_each(|cache| cache.keep(kept));
    Ok(loaded.map(|module| {
        let cost = ModuleCompileCost::of(&module, cache);
        (module, cost)
    }))
}

/// Compiles modules into a directory that several collections share, unless earlier runs have.
pub(crate) fn compile_once(found: &[HookModule], compiled: &Path) -> Result<(), Failure> {
    let options =
        interactive_compile::options(Some(compiled.to_owned())).map_err(Failure::Machine)?;
    make_private(compiled)
        .with_context(|| compiled.display().to_string())
        .map_err(Failure::Machine)?;
    let cache = CompiledModuleCache::of_user();
    for hook in found {
        cache
            .iter()
            .for_each(|cache| cache.fetch(&hook.module, compiled));
    }
    let done = runtime()?.block_on(compile(found, options)).map(drop);
    cache.iter().for_each(|cache| cache.keep(compiled));
    done.map_err(|failure| failure.map(interactive_compile::explain_any))
}

/// Loads one module, compiled by a child as in a launcher; the code is kept in `kept`.
pub(crate) async fn load(path: &Path, kept: &Path) -> Result<Result<Module, LoadError>> {
    let options = interactive_compile::options(Some(kept.to_owned()))?;
    Ok(interactive_compile::with_progress(path, Module::load(path, options)).await)
}

/// Compiles a module as the smallest sidecar would.
pub(crate) async fn load_in_smallest_sidecar(path: &Path) -> Result<Result<Module, LoadError>> {
    let options = LoadOptions {
        limits: smallest_limits(),
        ..interactive_compile::options(None)?
    };
    Ok(interactive_compile::with_progress(path, Module::load(path, options)).await)
}

/// Writes a policy that grants everything the modules declare, the dangerous set included.
pub(crate) fn write_granting_policy(modules: &[Description], work_dir: &Path) -> Result<PathBuf> {
    let wishes = || modules.iter().filter_map(|module| module.wishes.as_ref());
    // Without `paths`, modules may do what they declare, short of the dangerous set.
    let dangerous = wishes().flat_map(|wishes| &wishes.paths);
    let dangerous = dangerous.filter(|path| names_dangerous(path));
    let dangerous: BTreeSet<&str> = dangerous.map(|path| path.as_str()).collect();
    let dirs: BTreeSet<&PathBuf> = wishes().flat_map(|wishes| &wishes.dirs).collect();
    let pod: BTreeSet<&str> = wishes()
        .flat_map(|wishes| wishes.pod.iter().map(PodPattern::as_str))
        .collect();
    // JSON is YAML.
    let policy = json!({"allow": {"dangerous": dangerous, "dirs": dirs, "pod": pod}});
    let path = work_dir.join("policy.yaml");
    fs::write(&path, policy.to_string()).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Compiles each module into the directory where the collection finds its code. Returns the modules that were not compiled
/// before, with the duration.
async fn compile(
    found: &[HookModule],
    options: LoadOptions,
) -> Result<Vec<(&HookModule, Duration)>, Failure> {
    let loader = Loader::new(options);
    let mut times = Vec::new();
    for hook in found {
        let loaded = loader.load(&hook.module, &hook.directory);
        let module = interactive_compile::with_progress(&hook.module, loaded).await;
        let module = module.map_err(Failure::of_load)?;
        if let CodeOrigin::Compiled { took, .. } = module.code_origin() {
            times.push((hook, *took));
        }
    }
    Ok(times)
}
