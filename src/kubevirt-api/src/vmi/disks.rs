//! Disks.

use serde::Deserialize;

use super::null_as_default;

/// A disk: how the guest sees the volume of the same name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Disk {
    /// Name, shared with its volume.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// As a disk.
    pub disk: Option<DiskTarget>,
    /// As a LUN.
    pub lun: Option<LunTarget>,
    /// As a CD-ROM.
    pub cdrom: Option<CdromTarget>,
    /// Place in the boot order.
    pub boot_order: Option<u64>,
    /// Serial number.
    #[serde(deserialize_with = "null_as_default")]
    pub serial: String,
    /// An IO thread of its own.
    #[serde(rename = "dedicatedIOThread")]
    pub dedicated_io_thread: Option<bool>,
    /// Cache mode.
    #[serde(deserialize_with = "null_as_default")]
    pub cache: String,
    /// IO mode.
    #[serde(deserialize_with = "null_as_default")]
    pub io: String,
    /// Tag in the guest's device metadata.
    #[serde(deserialize_with = "null_as_default")]
    pub tag: String,
    /// Block sizes.
    pub block_size: Option<BlockSize>,
    /// Several guests may use it at once.
    pub shareable: Option<bool>,
    /// What happens on an IO error.
    pub error_policy: Option<String>,
    /// Changed block tracking.
    pub changed_block_tracking: Option<bool>,
}

/// A disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DiskTarget {
    /// `virtio`, `sata`, `scsi` or `usb`.
    #[serde(deserialize_with = "null_as_default")]
    pub bus: String,
    /// The guest cannot write.
    #[serde(rename = "readonly", deserialize_with = "null_as_default")]
    pub read_only: bool,
    /// PCI address.
    #[serde(deserialize_with = "null_as_default")]
    pub pci_address: String,
}

/// A LUN.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LunTarget {
    /// `scsi`, `sata` or `virtio`.
    #[serde(deserialize_with = "null_as_default")]
    pub bus: String,
    /// The guest cannot write.
    #[serde(rename = "readonly", deserialize_with = "null_as_default")]
    pub read_only: bool,
    /// SCSI persistent reservations.
    #[serde(deserialize_with = "null_as_default")]
    pub reservation: bool,
}

/// A CD-ROM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CdromTarget {
    /// `sata`, `scsi` or `usb`.
    #[serde(deserialize_with = "null_as_default")]
    pub bus: String,
    /// The guest cannot write; so by default.
    #[serde(rename = "readonly")]
    pub read_only: Option<bool>,
    /// `open` or `closed`.
    #[serde(deserialize_with = "null_as_default")]
    pub tray: String,
}

/// Block sizes shown to the guest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockSize {
    /// Fixed sizes.
    pub custom: Option<CustomBlockSize>,
    /// Sizes of the volume.
    pub match_volume: Option<super::FeatureState>,
}

/// Fixed block sizes in bytes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CustomBlockSize {
    /// Logical.
    #[serde(deserialize_with = "null_as_default")]
    pub logical: u64,
    /// Physical.
    #[serde(deserialize_with = "null_as_default")]
    pub physical: u64,
    /// Discard granularity.
    pub discard_granularity: Option<u64>,
}

impl Disk {
    /// The bus, whatever the disk is.
    pub fn bus(&self) -> &str {
        match self {
            Self {
                disk: Some(disk), ..
            } => &disk.bus,
            Self { lun: Some(lun), .. } => &lun.bus,
            Self {
                cdrom: Some(cdrom), ..
            } => &cdrom.bus,
            _ => "",
        }
    }
}
