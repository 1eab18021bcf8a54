//! Finds the modules of the command line, and lays them out as in a pod.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use hook_host::WRITE_GRACE;
use hook_host::policy::{HookYaml, module_signature};
use hook_host::wasm::LoadError;

use crate::exit_codes::Failure;
use crate::inputs::hint_of_missing;

/// The settings beside a module.
const SETTINGS: &str = "hook.yaml";
/// What authors call them by mistake.
const MISNAMED_SETTINGS: [&str; 2] = ["hook.yml", "hook.json"];
/// The name of every module that `pull` and `image` write, into the hook's directory.
const MODULE: &str = "hook.wasm";
const SUFFIX: &str = ".wasm";

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

    /// The module's file name in a pod: collections skip hidden files, and other endings than `.wasm`.
    pub(crate) fn file_name(&self) -> OsString {
        let name = self.module.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let name = name.trim_start_matches('.');
        let stem = match name.strip_suffix(SUFFIX) {
            Some(stem) => stem,
            None => name.rsplit_once('.').map_or(name, |(stem, _)| stem),
        };
        format!("{stem}{SUFFIX}").into()
    }

    /// The module's path in a pod with this hooks directory.
    pub(crate) fn path_in(&self, hooks_dir: &Path) -> PathBuf {
        hooks_dir.join(&self.directory).join(self.file_name())
    }

    /// The paths in a pod of the module and what is beside it, with the paths here.
    pub(crate) fn laid_out_paths(&self, hooks_dir: &Path) -> [(PathBuf, PathBuf); 3] {
        let laid = hooks_dir.join(&self.directory);
        let settings = self.settings.as_deref().unwrap_or(Path::new(SETTINGS));
        [
            (laid.join(SETTINGS), settings.to_owned()),
            (self.path_in(hooks_dir), self.module.clone()),
            // With a slash at the end: the directory `a` is not part of `a-b`.
            (laid.join(""), parent(&self.module).join("")),
        ]
    }

    /// Copies the module, its settings and its signature to their paths in a pod. A module of more than `limit` bytes is
    /// refused.
    pub(crate) fn lay_out(&self, hooks_dir: &Path, limit: u64) -> Result<(), Failure> {
        let size = size(&self.module).map_err(Failure::Usage)?;
        if size > limit {
            return Err(Failure::of_load(LoadError::TooLarge {
                path: self.module.clone(),
                size,
                limit,
            }));
        }
        let module = self.path_in(hooks_dir);
        let directory = hooks_dir.join(&self.directory);
        fs::create_dir_all(&directory).map_err(|error| of_machine(&directory, error))?;
        let from = File::open(&self.module)
            .with_context(|| self.module.display().to_string())
            .map_err(Failure::Usage)?;
        copy(from, &module)?;
        if let Some(settings) = &self.settings
            && let Some(text) = HookYaml::text(settings).map_err(Failure::usage)?
        {
            copy(text.as_bytes(), &directory.join(SETTINGS))?;
        }
        if let Some(text) = module_signature::text(&self.module).map_err(Failure::usage)? {
            copy(text.as_bytes(), &module_signature::path_of(&module))?;
        }
        Ok(())
    }
}

/// Writes a file that counts as complete: a collection waits before it refuses one that may still be written.
fn copy(mut from: impl Read, to: &Path) -> Result<(), Failure> {
    let written = File::create(to).and_then(|mut file| {
        io::copy(&mut from, &mut file)?;
        file.set_modified(SystemTime::now() - 2 * WRITE_GRACE)
    });
    written.map_err(|error| of_machine(to, error))
}

/// A temporary file that cannot be written is not the fault of what the command line names.
fn of_machine(path: &Path, error: io::Error) -> Failure {
    Failure::Machine(anyhow::Error::new(error).context(path.display().to_string()))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// The modules that the paths name: a module, a directory with modules, or a hooks directory with one
/// sub-directory per hook.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<HookModule>> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(find_in(path)?);
    }
    let mut names = BTreeMap::new();
    let mut parents = BTreeMap::new();
    for hook in &found {
        refuse_misnamed_settings(&hook.module)?;
        if let Some(other) = names.insert((&hook.directory, hook.file_name()), &hook.module) {
            if *other == hook.module {
                bail!("{} is named twice", other.display());
            }
            bail!(
                "{} and {} would both be the hook {}: put them into directories of different names",
                other.display(),
                hook.module.display(),
                hook.directory
            );
        }
        // They would get each other's settings.
        let parent = parent(&hook.module);
        if *parents.entry(&hook.directory).or_insert(parent) != parent {
            bail!(
                "{} and {} would both be in the hook directory {}: put them into directories of different names",
                parents[&hook.directory].display(),
                parent.display(),
                hook.directory
            );
        }
    }
    Ok(found)
}

/// Refuses settings of another name beside a module: the hook would run without them.
fn refuse_misnamed_settings(module: &Path) -> Result<()> {
    for name in MISNAMED_SETTINGS {
        let path = module.with_file_name(name);
        if path.symlink_metadata().is_ok() {
            bail!("{}: it is not read: call it {SETTINGS}", path.display());
        }
    }
    Ok(())
}

/// Modules in a directory, and any module called `hook.wasm`, are named after the directory; other modules after their file.
fn find_in(path: &Path) -> Result<Vec<HookModule>> {
    if !path.is_dir() {
        size(path)?;
        let of_directory = path.file_name() == Some(OsStr::new(MODULE));
        let directory = of_directory.then(|| directory_name(parent(path)).ok());
        let directory = match directory.flatten() {
            Some(directory) => directory,
            None => name(path.file_stem(), path)?,
        };
        return Ok(vec![HookModule::new(path.to_owned(), directory)]);
    }
    let (directories, files): (Vec<_>, Vec<_>) =
        entries(path)?.into_iter().partition(|entry| entry.is_dir());
    let modules_of_directory = modules(path, files)?;
    let mut of_directories = Vec::new();
    for directory in directories {
        let found = modules(&directory, entries(&directory)?)?;
        if found.is_empty() && is_module(&directory) {
            bail!("{}: it is a directory, and no module", directory.display());
        }
        of_directories.extend(found);
    }
    match (&modules_of_directory[..], &of_directories[..]) {
        ([], []) => bail!(
            "{}: no *.wasm in it or in its sub-directories; gRPC sidecars need a running pod",
            path.display()
        ),
        ([modules_of_directory, ..], [other, ..]) => bail!(
            "{}: it has a module of its own, {}, and one in a sub-directory, {}: name the modules one by one",
            path.display(),
            modules_of_directory.module.display(),
            other.module.display()
        ),
        (_, []) => Ok(modules_of_directory),
        ([], _) => Ok(of_directories),
    }
}

/// The modules among the entries of a directory. One that cannot be read is an error and not left out, as in a launcher: its
/// veto would be missing.
fn modules(directory: &Path, entries: Vec<PathBuf>) -> Result<Vec<HookModule>> {
    let modules = entries.into_iter().filter(|entry| is_module(entry));
    modules
        .map(|module| {
            size(&module)?;
            Ok(HookModule::new(module, directory_name(directory)?))
        })
        .collect()
}

/// The entries of a directory that are not hidden: ConfigMap mounts keep their versions under hidden names.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let named = || directory.display().to_string();
    let entries = fs::read_dir(directory).with_context(named)?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.with_context(named)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_module(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("wasm"))
}

/// The name of a hook whose modules are in the directory.
fn directory_name(directory: &Path) -> Result<String> {
    // `.` and `..` have names only after canonicalisation.
    let resolved = directory
        .canonicalize()
        .with_context(|| directory.display().to_string())?;
    name(resolved.file_name(), directory)
}

/// A hook's name without leading dots: the collection skips hidden names.
pub(crate) fn name(name: Option<&OsStr>, path: &Path) -> Result<String> {
    let name = name
        .and_then(OsStr::to_str)
        .map(|name| name.trim_start_matches('.'))
        .filter(|name| !name.is_empty());
    name.map(str::to_owned)
        .ok_or_else(|| anyhow!("{}: a hook cannot be named after this", path.display()))
}

/// Size of a module file in bytes.
pub(crate) fn size(path: &Path) -> Result<u64> {
    let named = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(|| match hint_of_missing(path, false) {
        Some(hint) => format!("{}: there is no such file: {hint}", named()),
        None => named(),
    });
    let metadata = metadata?;
    if metadata.is_dir() {
        bail!(
            "{}: it is a directory: name the module in it",
            path.display()
        );
    }
    if !metadata.is_file() {
        bail!("{}: it is not a regular file", path.display());
    }
    File::open(path).with_context(named)?;
    Ok(metadata.len())
}
