//! The VMIs of the given files, and of the files of directories.

use std::path::{Path, PathBuf};

use crate::inputs::{self, DumpEntry, ManifestPaths};
use crate::verb_failure::Failure;

/// Reads and converts the VMIs of `paths`, and of the manifests in `directory`, with the same fixed host facts. The
/// result also has the objects that cannot be converted, with the reason.
pub(super) fn read(paths: &[PathBuf], directory: Option<&Path>) -> Result<Vec<DumpEntry>, Failure> {
    let mut found = ManifestPaths::find(paths).map_err(Failure::Usage)?;
    if let Some(directory) = directory {
        let of_directory = inputs::in_directory(directory).map_err(Failure::Usage)?;
        found.of_directories.extend(of_directory);
    }
    inputs::read_and_convert_vmis(&found.files, &found.of_directories)
}
