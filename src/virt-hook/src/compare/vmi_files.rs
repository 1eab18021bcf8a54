//! The VMIs of all files and of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::exit_codes::Failure;
use crate::inputs::{NamedVmi, VmiSource};

const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads and converts all VMIs, for the same node everywhere.
pub(super) fn read(files: &[PathBuf], folder: Option<&Path>) -> Result<Vec<NamedVmi>, Failure> {
    let mut paths = files.to_vec();
    if let Some(folder) = folder {
        paths.extend(manifests(folder).map_err(Failure::Usage)?);
    }
    let mut found = Vec::new();
    for path in paths {
        found.extend(VmiSource::on_any_node(&path).read_each()?);
    }
    Ok(found)
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
