//! Finds the modules of the command line and collects them into a chain.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
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

/// Deadline of a collection. Modules are compiled before it starts.
const DEADLINE: Duration = Duration::from_secs(120);
/// How long a running sidecar may take to say what it is.
const SIDECAR_DEADLINE: Duration = Duration::from_secs(10);
/// The settings beside a module.
const SETTINGS: &str = "hook.yaml";

/// A module and the directory it would have in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookModule {
    /// The file.
    pub(crate) module: PathBuf,
    /// The hook's name in logs and errors.
    pub(crate) directory: String,
    /// Its `hook.yaml`, if it has one.
    pub(crate) settings: Option<PathBuf>,
}

impl HookModule {
    fn new(module: PathBuf, directory: String) -> Self {
        let settings = module.with_file_name(SETTINGS);
        Self {
            // Whatever has the name; what cannot be settings is refused when it is read.
            settings: settings.symlink_metadata().is_ok().then_some(settings),
            module,
            directory,
        }
    }
}

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

/// The modules that the paths name: a module, a directory with modules, or a hooks directory with one
/// sub-directory per hook.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<HookModule>> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(find_in(path)?);
    }
    let names: BTreeSet<_> = found
        .iter()
        .map(|hook| (&hook.directory, hook.module.file_name()))
        .collect();
    if names.len() < found.len() {
        bail!("two hooks have the same name; put them into directories of different names");
    }
    Ok(found)
}

/// A module is named after its file, modules in a directory after the directory.
fn find_in(path: &Path) -> Result<Vec<HookModule>> {
    if !path.is_dir() {
        size(path)?;
        let directory = name(path.file_stem(), path)?;
        return Ok(vec![HookModule::new(path.to_owned(), directory)]);
    }
    let mut found = modules(path)?;
    if found.is_empty() {
        for directory in entries(path)?.into_iter().filter(|entry| entry.is_dir()) {
            found.extend(modules(&directory)?);
        }
    }
    if found.is_empty() {
        bail!(
            "{}: no *.wasm in it or in its sub-directories; gRPC sidecars need a running pod",
            path.display()
        );
    }
    Ok(found)
}

fn modules(directory: &Path) -> Result<Vec<HookModule>> {
    // `.` and `..` have names only after canonicalisation.
    let resolved = directory
        .canonicalize()
        .with_context(|| directory.display().to_string())?;
    let files = entries(directory)?
        .into_iter()
        .filter(|entry| entry.is_file() && is_module(entry));
    files
        .map(|module| {
            let directory = name(resolved.file_name(), directory)?;
            Ok(HookModule::new(module, directory))
        })
        .collect()
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn is_module(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("wasm"))
}

/// A hook's name without leading dots: the collection skips hidden names.
fn name(name: Option<&OsStr>, path: &Path) -> Result<String> {
    let name = name
        .and_then(OsStr::to_str)
        .map(|name| name.trim_start_matches('.'))
        .filter(|name| !name.is_empty());
    name.map(str::to_owned)
        .ok_or_else(|| anyhow!("{}: a hook cannot be named after this", path.display()))
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

/// Size of a module file in bytes.
pub(crate) fn size(path: &Path) -> Result<u64> {
    let named = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(named)?;
    if metadata.is_dir() {
        bail!(
            "{}: it is a directory: name the module in it",
            path.display()
        );
    }
    if !metadata.is_file() {
        bail!("{}: it is no regular file", path.display());
    }
    File::open(path).with_context(named)?;
    Ok(metadata.len())
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn layout(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    #[test]
    fn settings_that_are_no_file_of_their_directory_are_refused() {
        use std::os::unix::fs::symlink;
        use std::path::Path;
        type Make = fn(&Path);
        let cases: [(Make, &str); 4] = [
            (|path| fs::create_dir(path).unwrap(), "no regular file"),
            (
                |path| {
                    let mkfifo = std::process::Command::new("mkfifo").arg(path).status();
                    assert!(mkfifo.unwrap().success());
                },
                "no regular file",
            ),
            (
                |path| symlink("/etc/passwd", path).unwrap(),
                "within the directory",
            ),
            (|path| symlink("gone", path).unwrap(), "hook.yaml"),
        ];
        for (make, part) in cases {
            let root = layout(&["a/x.wasm"]);
            let settings = root.path().join("a/hook.yaml");
            make(&settings);
            let [hook] = &find(&[root.path().join("a")]).unwrap()[..] else {
                panic!("one hook");
            };
            let error = lay_out(hook, &root.path().join("laid")).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(part), "{text}");
            assert!(text.contains(&settings.display().to_string()), "{text}");
        }
        // A ConfigMap's links stay within.
        let root = layout(&["a/x.wasm", "a/..data/hook.yaml"]);
        symlink("..data/hook.yaml", root.path().join("a/hook.yaml")).unwrap();
        let hooks = find(&[root.path().join("a/x.wasm")]).unwrap();
        lay_out(&hooks[0], &root.path().join("laid")).unwrap();
        assert!(root.path().join("laid/x/hook.yaml").is_file());
    }

    fn names(path: PathBuf) -> Vec<String> {
        find(&[path])
            .unwrap()
            .into_iter()
            .map(|hook| hook.directory)
            .collect()
    }

    #[test]
    fn paths_may_name_a_module_a_hook_or_a_hooks_directory() {
        let root = layout(&[
            "hooks/a/x.wasm",
            "hooks/a/hook.yaml",
            "hooks/b/y.wasm",
            "hooks/README",
            "z.wasm",
        ]);
        assert_eq!(names(root.path().join("z.wasm")), ["z"]);
        assert_eq!(names(root.path().join("hooks/a")), ["a"]);
        assert_eq!(names(root.path().join("hooks")), ["a", "b"]);
    }

    #[test]
    fn a_directory_without_modules_is_named() {
        let root = layout(&["a/notes.txt"]);
        let error = find(&[root.path().join("a")]).unwrap_err().to_string();
        assert!(error.contains("no *.wasm"), "{error}");
        assert!(find(&[root.path().join("gone.wasm")]).is_err());
        let twice = layout(&["a/x.wasm"]);
        let path = twice.path().join("a");
        assert!(
            find(&[path.clone(), path])
                .unwrap_err()
                .to_string()
                .contains("same name")
        );
    }
}
