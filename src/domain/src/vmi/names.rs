//! Names become parts of paths; none may lead out of its directory.

use super::{Metadata, Spec, VmiError};

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
    names
        .enumerate()
        .try_for_each(|(place, text)| name(&format!("{list}[{place}].name"), text))
}

fn name(path: &str, text: &str) -> Result<(), VmiError> {
    let leads_out = matches!(text, "." | "..") || text.contains(['/', '\0']);
    if !leads_out {
        return Ok(());
    }
    Err(VmiError::Field {
        path: path.to_owned(),
        message: format!("{text:?} is no name; it would lead to another directory"),
    })
}
