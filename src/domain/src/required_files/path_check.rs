//! Checks the paths of the domain's disks: relative paths and paths with `..` are errors.

use kubevirt_api::vmi::Volume;

use crate::libvirt_spec::Disk;
use crate::required_files::error::RequiredFileError;

/// Returns the path if it is absolute and has no `..`. Volume names are part of paths, and a VMI that no cluster has
/// validated may contain any name.
pub(crate) fn check_path(volume: &str, path: &str) -> Result<String, RequiredFileError> {
    let escapes =
        !path.starts_with('/') || path.contains('\0') || path.split('/').any(|part| part == "..");
    if escapes {
        return Err(RequiredFileError::Escapes {
            volume: volume.to_owned(),
            path: path.to_owned(),
        });
    }
    Ok(path.to_owned())
}

/// The path of the image of a volume's disk.
pub(crate) fn image_path(volume: &Volume, disk: &Disk) -> Result<String, RequiredFileError> {
    match disk.source.file.as_str() {
        "" => Err(missing_path(volume, "file")),
        path => check_path(&volume.name, path),
    }
}

pub(crate) fn missing_path(volume: &Volume, what: &'static str) -> RequiredFileError {
    RequiredFileError::NoPath {
        volume: volume.name.clone(),
        what,
    }
}
