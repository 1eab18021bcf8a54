//! The size of a module file, which must be a regular file that can be read.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::inputs::hint_of_missing;

/// The size of a module file in bytes. The file must be a regular file that can be read.
pub(crate) fn module_file_size(path: &Path) -> Result<u64> {
    let path_text = || path.display().to_string();
    let metadata = match (fs::metadata(path), hint_of_missing(path, false)) {
        (Err(_), Some(hint)) => bail!("{}: there is no such file: {hint}", path_text()),
        (metadata, _) => metadata.with_context(path_text)?,
    };
    if metadata.is_dir() {
        bail!(
            "{}: it is a directory: name the module in it",
            path.display()
        );
    }
    if !metadata.is_file() {
        bail!("{}: it is not a regular file", path.display());
    }
    File::open(path).with_context(path_text)?;
    Ok(metadata.len())
}
