//! Atomic writes of output files: a launcher may be watching the directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// Writes the file atomically, by rename: a launcher may be watching the directory.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| anyhow!("{}: it names no file", path.display()))?;
    let mut arriving = PathBuf::from(path);
    arriving.set_file_name(format!(".{}.arriving", name.to_string_lossy()));
    fs::write(&arriving, bytes)
        .and_then(|()| fs::rename(&arriving, path))
        .with_context(|| format!("writing {}", path.display()))
}
