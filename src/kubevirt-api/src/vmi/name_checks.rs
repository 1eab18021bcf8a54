//! Checks names, which become parts of paths and must not leave their directory.

use super::{Metadata, Spec, VmiError};

/// Kubernetes' limit for the names of objects; those of volumes are shorter.
const LONGEST: usize = 253;

pub(super) fn check(metadata: &Metadata, spec: &Spec) -> Result<(), VmiError> {
    name("metadata.name", &metadata.name)?;
    name("metadata.namespace", &metadata.namespace)?;
    name("metadata.uid", &metadata.uid)?;
    let volumes = spec.volumes.iter().map(|volume| &volume.name);
    each("spec.volumes", volumes)?;
    let disks = spec.domain.devices.disks.iter().map(|disk| &disk.name);
    each("spec.domain.devices.disks", disks)?;
    let filesystems = spec
        .domain
        .devices
        .filesystems
        .iter()
        .map(|filesystem| &filesystem.name);
    each("spec.domain.devices.filesystems", filesystems)
}

fn each<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), VmiError> {
    names.enumerate().try_for_each(|(index, text)| {
        let path = format!("{list}[{index}].name");
        match text.as_str() {
            "" => Err(refused(
                path,
                "it is empty, and every one of these has a name",
            )),
            text => name(&path, text),
        }
    })
}

fn name(path: &str, text: &str) -> Result<(), VmiError> {
    let leads_out = matches!(text, "." | "..") || text.contains(['/', '\0']);
    let reason = match () {
        () if leads_out => "it would lead to another directory",
        () if text.len() > LONGEST => "it is longer than any name in Kubernetes, 253 characters",
        () if text.chars().any(char::is_control) => "it contains control characters",
        () => return Ok(()),
    };
    let shown: String = text.chars().take(LONGEST).collect();
    Err(refused(
        path.to_owned(),
        &format!("{shown:?} is not a name; {reason}"),
    ))
}

fn refused(path: String, message: &str) -> VmiError {
    VmiError::Field {
        path,
        message: message.to_owned(),
    }
}
