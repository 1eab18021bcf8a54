//! The files that must exist before a VM starts, as data for the launcher.
//!
//! Paths are taken from the domain, where conversion put them.

mod config_iso;
mod error;
mod files_of_volume;
mod kernel_boot_and_ignition;
mod path_check;
mod required_file;

use std::collections::HashMap;

use kubevirt_api::vmi::Vmi;

use crate::convert::Purpose;
use crate::host_facts::HostFacts;
use crate::libvirt_spec::{Disk, DomainSpec};

pub use config_iso::{ConfigIso, ConfigKind};
pub use error::RequiredFileError;
pub use required_file::RequiredFile;

/// The files that must exist for this VMI and its domain as [`crate::convert`] returns it for the same purpose, before
/// hooks. Volumes without a disk need none. `facts` are those of the conversion.
///
/// # Errors
/// [`RequiredFileError`] naming the volume.
pub fn required_files(
    purpose: Purpose,
    vmi: &Vmi,
    spec: &DomainSpec,
    facts: &HostFacts,
) -> Result<Vec<RequiredFile>, RequiredFileError> {
    let mut files = Vec::new();
    let disks = by_volume(spec);
    for volume in &vmi.spec.volumes {
        match disks.get(volume.name.as_str()) {
            Some(disk) => {
                files.extend(files_of_volume::required_file(purpose, vmi, volume, disk)?);
                files.extend(files_of_volume::changed_blocks(purpose, vmi, volume, disk)?);
            }
            None if purpose == Purpose::MigrationTarget => {
                files.extend(files_of_volume::hotplugged_changed_blocks(
                    vmi, volume, facts,
                )?);
            }
            None => {}
        }
    }
    files.extend(kernel_boot_and_ignition::kernel_boot(vmi, spec)?);
    files.extend(kernel_boot_and_ignition::ignition(vmi, spec)?);
    Ok(files)
}

/// The image of changed blocks that must exist before a hotplugged disk is attached, if its blocks are tracked.
///
/// # Errors
/// [`RequiredFileError`] naming the volume.
pub fn changed_blocks(vmi: &Vmi, disk: &Disk) -> Result<Option<RequiredFile>, RequiredFileError> {
    let volume = (disk.alias.as_ref()).and_then(|alias| vmi.volume(&alias.name));
    match volume {
        Some(volume) => files_of_volume::changed_blocks(Purpose::Boot, vmi, volume, disk),
        None => Ok(None),
    }
}

/// Disks by the volumes that they show.
fn by_volume(spec: &DomainSpec) -> HashMap<&str, &Disk> {
    let mut disks = HashMap::new();
    for disk in &spec.devices.disks {
        if let Some(alias) = &disk.alias {
            disks.entry(alias.name.as_str()).or_insert(disk);
        }
    }
    disks
}

#[cfg(test)]
mod tests;
