//! Hooks as a pod would have them: laid out in a directory of our own, collected and chained by the
//! same code.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use domain::vmi::Vmi;
use hook_host::wasm::{Loader, Options};
use hook_host::{Chain, CollectConfig, Compiler, Invocation, Limits, Reason};
use tempfile::TempDir;

use crate::failure::Failure;

/// More than compiling any one module may take.
const DEADLINE: Duration = Duration::from_secs(120);
const HOST: &str = concat!("virt-hook/", env!("CARGO_PKG_VERSION"));

/// The XML after all hooks. Without hooks it stays as it is, and nothing is started.
pub(super) fn apply(paths: &[PathBuf], vmi: &Vmi, xml: String) -> Result<String, Failure> {
    if paths.is_empty() {
        return Ok(xml);
    }
    let found = find(paths).map_err(Failure::Usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
        .map_err(Failure::Usage)?;
    runtime.block_on(async {
        let place = Place::new(&found).map_err(Failure::Usage)?;
        let chain = place.collect(&found).await.map_err(Failure::Usage)?;
        call(&chain, vmi, xml).await
    })
}

async fn call(chain: &Chain, vmi: &Vmi, xml: String) -> Result<String, Failure> {
    let invocation = Invocation {
        reason: Reason::Boot,
        namespace: vmi.namespace().to_owned(),
        name: vmi.name().to_owned(),
        uid: vmi.uid().to_owned(),
        domain: vmi.domain_name(),
    };
    chain
        .pre_start(&invocation, vmi.raw_json())
        .await
        .map_err(Failure::refused)?;
    let (xml, _) = chain
        .on_define_domain(&invocation, vmi.raw_json(), xml)
        .await
        .map_err(Failure::refused)?;
    Ok(xml)
}

/// A module and the directory it would have in a pod.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    module: PathBuf,
    directory: String,
}

fn find(paths: &[PathBuf]) -> Result<Vec<Found>> {
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
fn find_in(path: &Path) -> Result<Vec<Found>> {
    if !path.is_dir() {
        fs::metadata(path).with_context(|| path.display().to_string())?;
        let directory = name(path.file_stem(), path)?;
        return Ok(vec![Found {
            module: path.to_owned(),
            directory,
        }]);
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

fn modules(directory: &Path) -> Result<Vec<Found>> {
    // "." and ".." have names only when resolved.
    let resolved = directory
        .canonicalize()
        .with_context(|| directory.display().to_string())?;
    let files = entries(directory)?
        .into_iter()
        .filter(|entry| entry.is_file() && is_module(entry));
    files
        .map(|module| {
            Ok(Found {
                module,
                directory: name(resolved.file_name(), directory)?,
            })
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

/// Names that begin with a dot are hidden from the collection.
fn name(name: Option<&OsStr>, path: &Path) -> Result<String> {
    let name = name
        .and_then(OsStr::to_str)
        .map(|name| name.trim_start_matches('.'))
        .filter(|name| !name.is_empty());
    name.map(str::to_owned)
        .ok_or_else(|| anyhow!("{}: a hook cannot be named after this", path.display()))
}

/// A hooks directory, and one for what is compiled. Both are gone when this is.
struct Place {
    root: TempDir,
}

impl Place {
    fn new(found: &[Found]) -> Result<Self> {
        let place = Self {
            root: tempfile::tempdir().context("making a temporary directory")?,
        };
        let limit = Limits::default().module as u64;
        for hook in found {
            let size = fs::metadata(&hook.module)
                .with_context(|| hook.module.display().to_string())?
                .len();
            if size > limit {
                bail!(
                    "{}: it has {size} bytes, more than the {limit} a module may have",
                    hook.module.display()
                );
            }
            let directory = place.hooks().join(&hook.directory);
            fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
            let file = hook.module.file_stem().unwrap_or_default();
            let file = directory.join(file).with_extension("wasm");
            fs::copy(&hook.module, &file).with_context(|| hook.module.display().to_string())?;
        }
        Ok(place)
    }

    fn hooks(&self) -> PathBuf {
        self.root.path().join("hooks")
    }

    fn artifacts(&self) -> PathBuf {
        self.root.path().join("compiled")
    }

    /// Each module is loaded from its own path first: errors then name it as the caller did, and
    /// come at once, where a collection waits for a file that may still be on its way.
    async fn collect(&self, found: &[Found]) -> Result<Chain> {
        let compiler = Compiler::Child {
            program: std::env::current_exe().context("finding this program")?,
        };
        let options = Options {
            compiler: compiler.clone(),
            artifacts_dir: Some(self.artifacts()),
            host_name: HOST.to_owned(),
            ..Options::default()
        };
        let loader = Loader::new(options);
        for hook in found {
            loader.load(&hook.module, &hook.directory).await?;
        }
        let config = CollectConfig {
            hooks_dir: self.hooks(),
            expected: found.len(),
            deadline: DEADLINE,
            artifacts_dir: self.artifacts(),
            compiler,
            limits: Limits::default(),
            host_name: HOST.to_owned(),
        };
        Ok(hook_host::collect(config).await?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn layout(files: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn names(path: PathBuf) -> Vec<String> {
        find(&[path])
            .unwrap()
            .into_iter()
            .map(|hook| hook.directory)
            .collect()
    }

    #[test]
    fn a_module_a_hook_or_a_whole_hooks_directory() {
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
    fn what_holds_no_module_is_named() {
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
