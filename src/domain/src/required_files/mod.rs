//! Lists the files that must exist before a VM starts. The launcher creates or checks them.
//!
//! The paths are taken from the converted domain.

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

/// The files that must exist for this VMI. `spec` is the domain that [`crate::convert`] returned for the same purpose,
/// before hooks, and `facts` are the host facts of the conversion. Volumes without a disk need no file.
///
/// # Errors
/// [`RequiredFileError`], which names the volume.
pub fn required_files(
    purpose: Purpose,
    vmi: &Vmi,
    spec: &DomainSpec,
    facts: &HostFacts,
) -> Result<Vec<RequiredFile>, RequiredFileError> {
    let mut files = Vec::new();
    let disks = disks_by_volume(spec);
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

/// The image that tracks changed blocks and must exist before a hotplugged disk is attached, if changed blocks are
/// tracked.
///
/// # Errors
/// [`RequiredFileError`], which names the volume.
pub fn changed_blocks(vmi: &Vmi, disk: &Disk) -> Result<Option<RequiredFile>, RequiredFileError> {
    let volume = (disk.alias.as_ref()).and_then(|alias| vmi.volume(&alias.name));
    match volume {
        Some(volume) => files_of_volume::changed_blocks(Purpose::Boot, vmi, volume, disk),
        None => Ok(None),
    }
}

/// The disks by the names of their volumes.
fn disks_by_volume(spec: &DomainSpec) -> HashMap<&str, &Disk> {
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
