//! The directory of standing hooks, as the launcher reads it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Refuses a directory in which a launcher finds no hooks, or not all.
pub(crate) fn check(hooks: &Path) -> Result<()> {
    let mut found = false;
    for path in entries(hooks)? {
        let place = path.display();
        if !path.is_dir() {
            if is_module(&path) {
                bail!(
                    "{place}: the launcher does not find it; a hook is NAME/hook.wasm below {}",
                    hooks.display()
                );
            }
            continue;
        }
        let modules = entries(&path)?;
        if !modules.iter().any(|file| is_module(file)) {
            bail!("{place}: it has no *.wasm file");
        }
        found = true;
    }
    if !found {
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
