//! The changes of devices of a running domain.

use std::fmt;

use crate::libvirt_spec::{Disk, Interface};

/// A device of the running domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveDevice {
    /// The name of the VMI's volume or interface: the alias without `ua-`, or the target of a device without an alias.
    pub name: String,
    /// The alias in libvirt's XML and events.
    pub alias: String,
    /// libvirt's XML of the device.
    pub xml: String,
    /// The image that tracks a disk's changed blocks, which the launcher has created for this disk.
    pub overlay: Option<String>,
}

/// A disk to attach.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskAttachment {
    /// The disk. Its cache and IO modes are not set yet.
    pub disk: Disk,
    /// The IO threads of the disk that the running domain lacks, and that must be added to it first.
    pub new_io_threads: Vec<u32>,
}

/// A change of the medium in a CD-ROM drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumChange {
    /// The volume.
    pub name: String,
    /// The file or device to insert; `None` to eject the medium.
    pub medium: Option<String>,
    /// libvirt's XML of the drive, with the new medium.
    pub xml: String,
}

/// A change of a device.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceChange {
    /// Detach a disk.
    DetachDisk(LiveDevice),
    /// Attach a disk.
    AttachDisk(Box<DiskAttachment>),
    /// Change or eject the medium of a CD-ROM drive.
    ChangeMedium(MediumChange),
    /// Attach an interface. It is not connected to a tap device yet.
    AttachInterface(Box<Interface>),
    /// Detach an interface.
    DetachInterface(LiveDevice),
    /// Set an interface's link state, which the XML contains.
    SetLink(LiveDevice),
}

impl DeviceChange {
    /// Whether a disk is changed.
    pub fn is_of_disk(&self) -> bool {
        match self {
            DeviceChange::AttachDisk(_)
            | DeviceChange::DetachDisk(_)
            | DeviceChange::ChangeMedium(_) => true,
            DeviceChange::AttachInterface(_)
            | DeviceChange::DetachInterface(_)
            | DeviceChange::SetLink(_) => false,
        }
    }

    /// Whether a device is detached.
    pub fn is_detach(&self) -> bool {
        matches!(
            self,
            DeviceChange::DetachDisk(_) | DeviceChange::DetachInterface(_)
        )
    }

    /// The name of the VMI's volume or interface.
    pub fn name(&self) -> &str {
        match self {
            DeviceChange::AttachDisk(attachment) => volume_name(&attachment.disk),
            DeviceChange::AttachInterface(interface) => {
                (interface.alias.as_ref()).map_or("", |alias| alias.name.as_str())
            }
            DeviceChange::ChangeMedium(change) => &change.name,
            DeviceChange::DetachDisk(device)
            | DeviceChange::DetachInterface(device)
            | DeviceChange::SetLink(device) => &device.name,
        }
    }
}

impl fmt::Display for DeviceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            DeviceChange::AttachDisk(_) => write!(f, "attaching volume {name}"),
            DeviceChange::DetachDisk(_) => write!(f, "detaching volume {name}"),
            DeviceChange::ChangeMedium(MediumChange { medium: None, .. }) => {
                write!(f, "ejecting the medium of CD-ROM drive {name}")
            }
            DeviceChange::ChangeMedium(_) => write!(f, "inserting volume {name}"),
            DeviceChange::AttachInterface(_) => write!(f, "attaching interface {name}"),
            DeviceChange::DetachInterface(_) => write!(f, "detaching interface {name}"),
            DeviceChange::SetLink(_) => write!(f, "setting the link state of interface {name}"),
        }
    }
}

/// The name of a disk's volume, or the target of a disk without an alias.
pub(crate) fn volume_name(disk: &Disk) -> &str {
    match &disk.alias {
        Some(alias) => &alias.name,
        None => &disk.target.device,
    }
}
