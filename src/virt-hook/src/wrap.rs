//! `wrap`: from what a compiler of C makes to a hook.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::cli::Wrap;
use crate::failure::Failure;

/// Writes the component beside the module, or where it was told to.
pub(crate) fn run(arguments: &Wrap) -> Result<(), Failure> {
    let core = read(&arguments.core).map_err(Failure::Usage)?;
    let component = hook_wrap::wrap(&core)
        .with_context(|| arguments.core.display().to_string())
        .map_err(Failure::Refused)?;
    write(&arguments.out, &component).map_err(Failure::Usage)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let whole = || path.display().to_string();
    let mut bytes = Vec::new();
    // One byte more than is taken tells that there is more.
    File::open(path)
        .with_context(whole)?
        .take(hook_wrap::LARGEST as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(whole)?;
    Ok(bytes)
}

/// Whole or not at all: a launcher may be watching the directory.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| anyhow!("{}: it names no file", path.display()))?;
    let mut arriving = PathBuf::from(path);
    arriving.set_file_name(format!(".{}.arriving", name.to_string_lossy()));
    fs::write(&arriving, bytes)
        .and_then(|()| fs::rename(&arriving, path))
        .with_context(|| format!("writing {}", path.display()))
}
