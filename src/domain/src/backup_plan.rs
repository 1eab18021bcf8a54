//! Plans a backup of the disks whose changed blocks are tracked: the XML documents for libvirt, and the volumes.
//!
//! ```text
//!   DomainSpec + BackupSettings ─▶ <domainbackup>, <domaincheckpoint>, the volumes
//! ```

#[cfg(test)]
mod tests;

use std::path::Path;

use kubevirt_api::typed_xml::XmlWriter;
use serde::Serialize;

use crate::libvirt_spec::{Disk, DomainSpec};

/// Whether the backup is written into files or served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupMode {
    /// QEMU writes the data into files.
    Push,
    /// QEMU serves the data over NBD on this socket until the backup is aborted. Meanwhile the files keep the blocks
    /// that the guest overwrites.
    Pull {
        /// The absolute path of the socket.
        socket: String,
    },
}

/// Settings of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSettings<'a> {
    /// The backup's name, with which each file's name starts.
    pub name: &'a str,
    /// The checkpoint that is created with the backup.
    pub checkpoint: &'a str,
    /// The checkpoint since which changes are backed up; `None` for a full backup.
    pub incremental: Option<&'a str>,
    /// Push or pull.
    pub mode: &'a BackupMode,
    /// The directory of the files.
    pub directory: &'a Path,
}

/// A volume in a backup, in KubeVirt's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupVolume {
    /// The volume's name.
    pub volume_name: String,
    /// The disk's name in the guest, such as `vda`.
    pub disk_target: String,
}

/// The documents for libvirt, and the volumes of the backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupPlan {
    /// The `<domainbackup>`.
    pub backup_xml: String,
    /// The `<domaincheckpoint>`.
    pub checkpoint_xml: String,
    /// The volumes that are backed up, in the order of the disks; empty if no disk is tracked.
    pub volumes: Vec<BackupVolume>,
}

impl BackupPlan {
    /// Plans a backup of the running domain.
    pub fn new(domain: &DomainSpec, settings: &BackupSettings<'_>) -> BackupPlan {
        let disks = || domain.devices.disks.iter().filter(|disk| has_target(disk));
        BackupPlan {
            backup_xml: backup_xml(disks(), settings),
            checkpoint_xml: checkpoint_xml(settings.checkpoint, None, disks()),
            volumes: disks()
                .filter(|disk| is_tracked(disk))
                .map(|disk| BackupVolume {
                    volume_name: volume_name(disk).to_owned(),
                    disk_target: disk.target.device.clone(),
                })
                .collect(),
        }
    }
}

/// The `<domaincheckpoint>` that makes an existing checkpoint known to libvirt again, for the disks whose image
/// contains the checkpoint's bitmap (`has_bitmap`, by the image's path). `None` if there is no such disk.
pub fn redefined_checkpoint(
    domain: &DomainSpec,
    name: &str,
    creation_time: Option<i64>,
    has_bitmap: impl Fn(&str) -> bool,
) -> Option<String> {
    let disks = domain.devices.disks.iter();
    let disks = disks.filter(|disk| has_target(disk) && is_tracked(disk));
    let mut disks = disks
        .filter(|disk| has_bitmap(&disk.source.file))
        .peekable();
    disks.peek()?;
    Some(checkpoint_xml(name, creation_time, disks))
}

fn backup_xml<'a>(disks: impl Iterator<Item = &'a Disk>, settings: &BackupSettings<'_>) -> String {
    let mut xml = XmlWriter::new();
    xml.start("domainbackup");
    xml.attr("mode", mode_name(settings.mode));
    if let Some(checkpoint) = settings.incremental {
        text_element(&mut xml, "incremental", checkpoint);
    }
    if let BackupMode::Pull { socket } = settings.mode {
        xml.start("server");
        xml.attr("transport", "unix");
        xml.attr("socket", socket);
        xml.end("server");
    }
    xml.start("disks");
    for disk in disks {
        backup_disk(&mut xml, disk, settings);
    }
    xml.end("disks");
    xml.end("domainbackup");
    xml.finish()
}

fn backup_disk(xml: &mut XmlWriter, disk: &Disk, settings: &BackupSettings<'_>) {
    let volume = volume_name(disk);
    xml.start("disk");
    xml.attr("name", &disk.target.device);
    if !is_tracked(disk) {
        xml.attr("backup", "no");
        return xml.end("disk");
    }
    xml.attr("backup", "yes");
    xml.attr("type", "file");
    let file = match settings.mode {
        BackupMode::Push => "target",
        BackupMode::Pull { .. } => {
            xml.attr("exportname", volume);
            xml.attr("exportbitmap", settings.checkpoint);
            "scratch"
        }
    };
    let name = format!("{}-{volume}.qcow2", settings.name);
    xml.start(file);
    xml.attr("file", &settings.directory.join(name).to_string_lossy());
    xml.end(file);
    xml.end("disk");
}

fn checkpoint_xml<'a>(
    name: &str,
    creation_time: Option<i64>,
    disks: impl Iterator<Item = &'a Disk>,
) -> String {
    let mut xml = XmlWriter::new();
    xml.start("domaincheckpoint");
    text_element(&mut xml, "name", name);
    if let Some(seconds) = creation_time {
        text_element(&mut xml, "creationTime", &seconds.to_string());
    }
    xml.start("disks");
    for disk in disks {
        let bitmap = match is_tracked(disk) {
            true => "bitmap",
            false => "no",
        };
        xml.start("disk");
        xml.attr("name", &disk.target.device);
        xml.attr("checkpoint", bitmap);
        xml.end("disk");
    }
    xml.end("disks");
    xml.end("domaincheckpoint");
    xml.finish()
}

fn mode_name(mode: &BackupMode) -> &'static str {
    match mode {
        BackupMode::Push => "push",
        BackupMode::Pull { .. } => "pull",
    }
}

fn text_element(xml: &mut XmlWriter, name: &str, text: &str) {
    xml.start(name);
    xml.text(text);
    xml.end(name);
}

fn has_target(disk: &Disk) -> bool {
    !disk.target.device.is_empty()
}

/// Whether changed blocks are tracked: then the disk has an image with the bitmaps, and a data store with the data.
fn is_tracked(disk: &Disk) -> bool {
    disk.source.data_store.is_some()
}

/// The alias of a disk is the name of its volume.
fn volume_name(disk: &Disk) -> &str {
    disk.alias.as_ref().map_or("", |alias| &alias.name)
}
