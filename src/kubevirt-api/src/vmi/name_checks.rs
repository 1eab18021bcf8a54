//! Checks names that become parts of paths, so that no path leads to another directory.

use super::{Metadata, Spec, VmiError};

/// Kubernetes' maximum length of an object's name. Names of volumes are shorter.
const MAX_NAME: usize = 253;

pub(super) fn check(metadata: &Metadata, spec: &Spec) -> Result<(), VmiError> {
    check_name("metadata.name", &metadata.name)?;
    check_name("metadata.namespace", &metadata.namespace)?;
    check_name("metadata.uid", &metadata.uid)?;
    let volumes = spec.volumes.iter().map(|volume| &volume.name);
    check_each("spec.volumes", volumes)?;
    let disks = spec.domain.devices.disks.iter().map(|disk| &disk.name);
    check_each("spec.domain.devices.disks", disks)?;
    let filesystems = spec
        .domain
        .devices
        .filesystems
        .iter()
        .map(|filesystem| &filesystem.name);
    check_each("spec.domain.devices.filesystems", filesystems)
}

fn check_each<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), VmiError> {
    names.enumerate().try_for_each(|(index, text)| {
        let path = format!("{list}[{index}].name");
        match text.as_str() {
            "" => Err(field_error(
                path,
                "it is empty, and every one of these has a name",
            )),
            text => check_name(&path, text),
        }
    })
}

fn check_name(path: &str, text: &str) -> Result<(), VmiError> {
    let is_path = matches!(text, "." | "..") || text.contains(['/', '\0']);
    let reason = match () {
        () if is_path => "it would lead to another directory",
        () if text.len() > MAX_NAME => "it is longer than any name in Kubernetes, 253 characters",
        () if text.chars().any(char::is_control) => "it contains control characters",
        () => return Ok(()),
    };
    let start: String = text.chars().take(MAX_NAME).collect();
    Err(field_error(
        path.to_owned(),
        &format!("{start:?} is not a name; {reason}"),
    ))
}

fn field_error(path: String, message: &str) -> VmiError {
    VmiError::Field {
        path,
        message: message.to_owned(),
    }
}
