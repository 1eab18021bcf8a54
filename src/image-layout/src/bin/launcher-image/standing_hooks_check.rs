//! The check that the launcher will find the standing hooks in a directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The prefix of the names of the image's standing hooks. The guard of deploy/admission refuses names with this prefix
/// in a VM's annotations, whose hooks are mounted in the same directory.
const PREFIX: &str = "image-";

/// Fails for a directory in which a launcher finds no hooks, or not all, or hooks that a VM can replace.
pub(crate) fn check(hooks: &Path) -> Result<()> {
    let mut has_hooks = false;
    for path in entries(hooks)? {
        let shown_path = path.display();
        if !path.is_dir() {
            if is_module(&path) {
                bail!(
                    "{shown_path}: the launcher does not find it; a hook is NAME/hook.wasm below {}",
                    hooks.display()
                );
            }
            continue;
        }
        let modules = entries(&path)?;
        if !modules.iter().any(|file| is_module(file)) {
            bail!("{shown_path}: it has no *.wasm file");
        }
        let name = path.file_name().and_then(|name| name.to_str());
        if !name.is_some_and(|name| name.starts_with(PREFIX)) {
            bail!(
                "{shown_path}: rename it to {PREFIX}NAME: the guard of deploy/admission keeps such names for the image, and a \
                 VM's annotations mount a hook of another name over this one"
            );
        }
        has_hooks = true;
    }
    if !has_hooks {
        bail!(
            "{}: it has no hooks; a hook is NAME/hook.wasm below it",
            hooks.display()
        );
    }
    Ok(())
}

fn is_module(file: &Path) -> bool {
    file.extension().is_some_and(|suffix| suffix == "wasm")
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<_>> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    let mut entries = read().with_context(|| directory.display().to_string())?;
    entries.sort();
    Ok(entries)
}
