//! The VMIs of all files and of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::exit_codes::Failure;
use crate::inputs::{self, DumpEntry};

const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads and converts all VMIs, for the same node everywhere.
pub(super) fn read(files: &[PathBuf], folder: Option<&Path>) -> Result<Vec<DumpEntry>, Failure> {
    let of_folder = folder.map(manifests).transpose().map_err(Failure::Usage)?;
    inputs::read_dump(files, &of_folder.unwrap_or_default())
}

fn manifests(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let named = || folder.display().to_string();
    let entries = fs::read_dir(folder).with_context(named)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending)) && path.is_file()
    });
    paths.sort();
    if paths.is_empty() {
        return Err(anyhow!(
            "{}: no *.yaml, *.yml or *.json in it",
            folder.display()
        ));
    }
    Ok(paths)
}
