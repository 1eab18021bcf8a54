//! A module of the command line with its `hook.yaml`, and their copies in a hooks directory as in a pod.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use hook_host::WRITE_GRACE;
use hook_host::policy::{HookYaml, module_signature};
use hook_host::wasm::LoadError;

use crate::interactive_compile::module_file_size;
use crate::verb_failure::Failure;

/// The name of the settings file beside a module.
pub(crate) const SETTINGS: &str = "hook.yaml";
const MODULE_SUFFIX: &str = ".wasm";

/// A module and the directory it would have in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookModule {
    /// The file of the module.
    pub(crate) module: PathBuf,
    /// The name of that directory, which is the hook's name in logs and errors.
    pub(crate) directory: String,
    /// The `hook.yaml` of the module, if it has one.
    pub(crate) settings: Option<PathBuf>,
}

impl HookModule {
    pub(crate) fn new(module: PathBuf, directory: String) -> Self {
        let settings = module.with_file_name(SETTINGS);
        Self {
            // Anything of this name counts: what cannot be settings is refused when it is read.
            settings: settings.symlink_metadata().is_ok().then_some(settings),
            module,
            directory,
        }
    }

    /// Renames the hook for a cluster, where names have no `_`: Cargo writes it for each `-` in the name of a package.
    pub(crate) fn rename_for_cluster(&mut self) {
        self.directory = self.directory.replace('_', "-");
    }

    /// The module's file name in a pod: collections skip hidden files, and other endings than `.wasm`.
    pub(crate) fn file_name(&self) -> OsString {
        let name = self.module.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let name = name.trim_start_matches('.');
        let stem = match name.strip_suffix(MODULE_SUFFIX) {
            Some(stem) => stem,
            None => name.rsplit_once('.').map_or(name, |(stem, _)| stem),
        };
        format!("{stem}{MODULE_SUFFIX}").into()
    }

    /// The module's path in a pod with this hooks directory.
    pub(crate) fn path_in(&self, hooks_dir: &Path) -> PathBuf {
        hooks_dir.join(&self.directory).join(self.file_name())
    }

    /// The paths in a pod of the settings, the module and its directory, each with the caller's path.
    pub(crate) fn laid_out_paths(&self, hooks_dir: &Path) -> [(PathBuf, PathBuf); 3] {
        let directory = hooks_dir.join(&self.directory);
        let settings = self.settings.as_deref().unwrap_or(Path::new(SETTINGS));
        [
            (directory.join(SETTINGS), settings.to_owned()),
            (self.path_in(hooks_dir), self.module.clone()),
            // The path ends with a slash, so that the directory `a` is not replaced in `a-b`.
            (directory.join(""), parent(&self.module).join("")),
        ]
    }

    /// Copies the module, its settings and its signature to their paths in a pod. A module of more than `limit` bytes
    /// is refused.
    pub(crate) fn lay_out(&self, hooks_dir: &Path, limit: u64) -> Result<(), Failure> {
        let size = module_file_size(&self.module).map_err(Failure::Usage)?;
        if size > limit {
            return Err(Failure::from_load_error(LoadError::TooLarge {
                path: self.module.clone(),
                size,
                limit,
            }));
        }
        let module = self.path_in(hooks_dir);
        let directory = hooks_dir.join(&self.directory);
        fs::create_dir_all(&directory).map_err(|error| write_failure(&directory, error))?;
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

/// Copies into a file that is old enough to count as complete: a collection waits before it refuses a file that may
/// still be written.
fn copy(mut from: impl Read, to: &Path) -> Result<(), Failure> {
    let written = File::create(to).and_then(|mut file| {
        io::copy(&mut from, &mut file)?;
        file.set_modified(SystemTime::now() - 2 * WRITE_GRACE)
    });
    written.map_err(|error| write_failure(to, error))
}

/// The failure for a temporary file that cannot be written, which is not the fault of the caller's files.
fn write_failure(path: &Path, error: io::Error) -> Failure {
    Failure::Internal(anyhow::Error::new(error).context(path.display().to_string()))
}

/// The directory of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
