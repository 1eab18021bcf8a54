//! The VMIs of the given files, and of the files of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::inputs::{self, DumpEntry};
use crate::verb_failure::Failure;

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads and converts the VMIs of `files`, and of the manifests in `directory`, with the same fixed host facts. The
/// result also has the objects that cannot be converted, with the reason.
pub(super) fn read(files: &[PathBuf], directory: Option<&Path>) -> Result<Vec<DumpEntry>, Failure> {
    let directory_paths = directory
        .map(manifest_paths)
        .transpose()
        .map_err(Failure::Usage)?;
    inputs::read_and_convert_vmis(files, &directory_paths.unwrap_or_default())
}

fn manifest_paths(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let directory_text = || directory.display().to_string();
    let entries = fs::read_dir(directory).with_context(directory_text)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && path.is_file()
    });
    paths.sort();
    if paths.is_empty() {
        return Err(anyhow!(
            "{}: no *.yaml, *.yml or *.json in it",
            directory.display()
        ));
    }
    Ok(paths)
}
