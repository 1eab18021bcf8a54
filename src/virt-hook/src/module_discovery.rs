//! Finds the modules that the paths of the command line name.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::hook_module::{HookModule, SETTINGS, parent};
use crate::interactive_compile::module_file_size;

/// Wrong names of the settings file, which are refused.
const MISNAMED_SETTINGS: [&str; 2] = ["hook.yml", "hook.json"];
/// The name of every module that `pull` and `image` write, into the hook's directory.
const MODULE_FILE: &str = "hook.wasm";

/// The modules that the paths name: a module, a directory with modules, or a hooks directory with one
/// sub-directory per hook.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<HookModule>> {
    let mut modules = Vec::new();
    for path in paths {
        modules.extend(find_in(path)?);
    }
    let mut names = BTreeMap::new();
    let mut parents = BTreeMap::new();
    for hook in &modules {
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
        // Modules of different directories would get each other's settings.
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
    Ok(modules)
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

/// Modules in a directory, and any module called `hook.wasm`, are named after the directory; other modules after their
/// file.
fn find_in(path: &Path) -> Result<Vec<HookModule>> {
    if !path.is_dir() {
        module_file_size(path)?;
        let is_named_after_directory = path.file_name() == Some(OsStr::new(MODULE_FILE));
        let directory = is_named_after_directory.then(|| directory_name(parent(path)).ok());
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
        let in_directory = modules(&directory, entries(&directory)?)?;
        if in_directory.is_empty() && is_module(&directory) {
            bail!("{}: it is a directory, and no module", directory.display());
        }
        of_directories.extend(in_directory);
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

/// The modules among the entries of a directory. One that cannot be read is an error and not left out, as in a
/// launcher: its veto would be missing.
fn modules(directory: &Path, entries: Vec<PathBuf>) -> Result<Vec<HookModule>> {
    let modules = entries.into_iter().filter(|entry| is_module(entry));
    modules
        .map(|module| {
            module_file_size(&module)?;
            Ok(HookModule::new(module, directory_name(directory)?))
        })
        .collect()
}

/// The entries of a directory that are not hidden: ConfigMap mounts keep their versions under hidden names.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let directory_text = || directory.display().to_string();
    let entries = fs::read_dir(directory).with_context(directory_text)?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.with_context(directory_text)?;
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

/// The name of the hook whose modules are in the directory.
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
