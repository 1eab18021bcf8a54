//! Atomic writes of output files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// Writes a file atomically, by renaming: a launcher may be watching the directory.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| anyhow!("{}: it names no file", path.display()))?;
    let mut partial = PathBuf::from(path);
    partial.set_file_name(format!(".{}.arriving", name.to_string_lossy()));
    fs::write(&partial, bytes)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("writing {}", path.display()))
}
