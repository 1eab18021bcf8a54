//! The VMIs of all files and of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::inputs::{self, DumpEntry};
use crate::verb_failure::Failure;

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads and converts all VMIs with the same fixed host facts.
pub(super) fn read(files: &[PathBuf], folder: Option<&Path>) -> Result<Vec<DumpEntry>, Failure> {
    let of_folder = folder
        .map(manifest_paths)
        .transpose()
        .map_err(Failure::Usage)?;
    inputs::read_dump(files, &of_folder.unwrap_or_default())
}

fn manifest_paths(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder_text = || folder.display().to_string();
    let entries = fs::read_dir(folder).with_context(folder_text)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && path.is_file()
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
