//! Collects the modules of the command line into a chain.

mod find_modules;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use hook_host::policy::{
    HookYaml, HostVersions, UnknownVersion, module_signature, names_dangerous,
};
use hook_host::record::RecordConfig;
use hook_host::wasm::{CodeOrigin, LoadError, LoadOptions, Loader, Module};
use hook_host::{Chain, CollectConfig, Compiler, Description, Limits, PodPattern, PolicySource};
use serde_json::json;

use crate::cgroup_limits::smallest_limits;
use crate::compile_cost_cache::CostRecord;
use crate::compiled_module_cache::{CompiledModuleCache, make_private};
use crate::exit::{Failure, error_text};
use crate::inputs::PodFacts;
use crate::interactive_compile::{self, HOST};
use crate::tokio_runtime::runtime;
use find_modules::SETTINGS;

pub(crate) use find_modules::{HookModule, find, size};

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

/// Copies modules into a hooks directory below `place`, as in a pod, and collects them. `place` is
/// not needed afterwards.
///
/// Each module is first loaded from its own path: errors then name this path and come at once,
/// while a collection waits for a file that may still be written.
pub(crate) async fn collect(
    found: &[HookModule],
    place: &Path,
    options: HookOptions,
) -> Result<Chain> {
    let config = CollectConfig {
        hooks_dir: place.join("hooks"),
        expected: found.len(),
        deadline: DEADLINE,
        artifacts_dir: options.artifacts.unwrap_or_else(|| place.join("compiled")),
        precompiled_dirs: options.precompiled_dirs,
        compiler: Compiler::Child {
            program: std::env::current_exe().context("finding this program")?,
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
        pod: options.pod.config(place)?,
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
    for hook in found {
        lay_out(hook, &config.hooks_dir)?;
    }
    let hooks_dir = config.hooks_dir.clone();
    let chain = hook_host::collect(config).await;
    let chain = chain.map_err(|error| with_caller_paths(&error.into(), found, &hooks_dir))?;
    for info in chain.hooks() {
        let is_its = |hook: &HookModule| {
            hook.directory == info.directory
                && hook.module.file_name() == Some(OsStr::new(&info.file))
        };
        if let Some((_, took)) = compile_times.iter().find(|(hook, _)| is_its(hook)) {
            chain.metrics().set_compile_time(&info.hook, *took);
        }
    }
    Ok(chain)
}

/// Collects the hook sidecar that listens at `socket`. `place` is a directory on the socket's file system.
pub(crate) async fn collect_socket(socket: &Path, place: &Path, record: PathBuf) -> Result<Chain> {
    let named = || socket.display().to_string();
    let hooks_dir = place.join("hooks");
    let directory = hooks_dir.join(name(socket.file_stem(), socket)?);
    fs::create_dir_all(&directory).with_context(named)?;
    // The collection follows no link out of its directory; a hard link is none.
    fs::hard_link(socket, directory.join("hook.sock")).with_context(named)?;
    let config = CollectConfig {
        hooks_dir,
        expected: 1,
        deadline: SIDECAR_DEADLINE,
        artifacts_dir: place.join("compiled"),
        host_name: HOST.to_owned(),
        record: Some(RecordConfig {
            dir: record,
            secrets: true,
        }),
        ..CollectConfig::default()
    };
    hook_host::collect(config).await.with_context(named)
}

/// Replaces the paths of the copies in an error by the caller's paths.
fn with_caller_paths(
    error: &anyhow::Error,
    found: &[HookModule],
    hooks_dir: &Path,
) -> anyhow::Error {
    let mut text = error_text(error);
    for hook in found {
        let laid = hooks_dir.join(&hook.directory);
        let settings = hook.settings.as_deref().unwrap_or(Path::new(SETTINGS));
        let (from, to) = (laid.join(SETTINGS), settings.display().to_string());
        text = text.replace(&from.display().to_string(), &to);
        let place = format!("{}/", laid.display());
        text = text.replace(&place, &format!("{}/", parent(&hook.module).display()));
    }
    anyhow!(text)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Like [`load`], with the code that an earlier run compiled, which goes into `kept`. Also returns what compiling cost.
pub(crate) fn load_once(
    path: &Path,
    kept: &Path,
) -> Result<Result<(Module, CostRecord), LoadError>, Failure> {
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
        let cost = CostRecord::of(&module, cache);
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
    let done = done.map_err(|error| match error.downcast() {
        Ok(error) => interactive_compile::explain(error),
        Err(error) => error,
    });
    done.map_err(Failure::Usage)
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
pub(crate) fn write_granting_policy(modules: &[Description], place: &Path) -> Result<PathBuf> {
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
    let path = place.join("policy.yaml");
    fs::write(&path, policy.to_string()).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Compiles each module into the directory where the collection finds its code. Returns the modules that were not compiled
/// before, with the duration.
async fn compile(
    found: &[HookModule],
    options: LoadOptions,
) -> Result<Vec<(&HookModule, Duration)>> {
    let loader = Loader::new(options);
    let mut times = Vec::new();
    for hook in found {
        let loaded = loader.load(&hook.module, &hook.directory);
        let module = interactive_compile::with_progress(&hook.module, loaded).await?;
        if let CodeOrigin::Compiled { took, .. } = module.code_origin() {
            times.push((hook, *took));
        }
    }
    Ok(times)
}

fn lay_out(hook: &HookModule, hooks_dir: &Path) -> Result<()> {
    let named = || hook.module.display().to_string();
    let directory = hooks_dir.join(&hook.directory);
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let file = hook.module.file_stem().unwrap_or_default();
    let file = directory.join(file).with_extension("wasm");
    fs::copy(&hook.module, &file).with_context(named)?;
    if let Some(settings) = &hook.settings
        && let Some(text) = HookYaml::text(settings)?
    {
        fs::write(directory.join(SETTINGS), text)
            .with_context(|| settings.display().to_string())?;
    }
    if let Some(text) = module_signature::text(&hook.module)? {
        let signature = module_signature::path_of(&file);
        fs::write(&signature, text).with_context(|| signature.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
