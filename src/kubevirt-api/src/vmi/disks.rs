//! `spec.domain.devices.disks`.

use serde::Deserialize;

use super::null_as_default;

/// A disk: the device through which the guest sees the volume of the same name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Disk {
    /// The name of the disk and of its volume.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Set if the guest sees a block device.
    pub disk: Option<DiskTarget>,
    /// Set if the guest sees a SCSI LUN.
    pub lun: Option<LunTarget>,
    /// Set if the guest sees a CD-ROM drive.
    pub cdrom: Option<CdromTarget>,
    /// Position in the boot order, from 1.
    pub boot_order: Option<u64>,
    /// Serial number.
    #[serde(deserialize_with = "null_as_default")]
    pub serial: String,
    /// Whether the disk has an IO thread of its own.
    #[serde(rename = "dedicatedIOThread")]
    pub dedicated_io_thread: Option<bool>,
    /// A cache mode of libvirt; the launcher chooses one if it is empty.
    #[serde(deserialize_with = "null_as_default")]
    pub cache: String,
    /// `native` or `threads`; the launcher chooses one if it is empty.
    #[serde(deserialize_with = "null_as_default")]
    pub io: String,
    /// Tag in the guest's device metadata.
    #[serde(deserialize_with = "null_as_default")]
    pub tag: String,
    /// The block sizes that the guest sees.
    pub block_size: Option<BlockSize>,
    /// Whether several guests may use the disk at once.
    pub shareable: Option<bool>,
    /// The action after an IO error: `stop`, `report`, `ignore` or `enospace`.
    pub error_policy: Option<String>,
    /// Whether changed blocks are tracked.
    pub changed_block_tracking: Option<bool>,
}

/// The disk as a block device (`disk`).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DiskTarget {
    /// `virtio`, `sata`, `scsi` or `usb`.
    #[serde(deserialize_with = "null_as_default")]
    pub bus: String,
    /// Whether the guest cannot write.
    #[serde(rename = "readonly", deserialize_with = "null_as_default")]
    pub read_only: bool,
    /// PCI address.
    #[serde(deserialize_with = "null_as_default")]
    pub pci_address: String,
}

/// The disk as a LUN, which passes SCSI commands through (`lun`).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LunTarget {
    /// `scsi`, `sata` or `virtio`.
    #[serde(deserialize_with = "null_as_default")]
    pub bus: String,
    /// Whether the guest cannot write.
    #[serde(rename = "readonly", deserialize_with = "null_as_default")]
    pub read_only: bool,
    /// Whether SCSI persistent reservations are possible.
    #[serde(deserialize_with = "null_as_default")]
    pub reservation: bool,
}

/// The disk as a CD-ROM drive (`cdrom`).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CdromTarget {
    /// `sata`, `scsi` or `usb`.
    #[serde(deserialize_with = "null_as_default")]
    pub bus: String,
    /// Whether the guest cannot write; true by default.
    #[serde(rename = "readonly")]
    pub read_only: Option<bool>,
    /// `open` or `closed`.
    #[serde(deserialize_with = "null_as_default")]
    pub tray: String,
}

/// The block sizes that the guest sees.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockSize {
    /// Sizes that the VMI sets.
    pub custom: Option<CustomBlockSize>,
    /// The sizes of the volume's block device.
    pub match_volume: Option<super::FeatureState>,
}

/// Fixed block sizes in bytes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CustomBlockSize {
    /// The logical block size, in which the guest addresses the disk.
    #[serde(deserialize_with = "null_as_default")]
    pub logical: u64,
    /// The physical block size, in which the guest should write.
    #[serde(deserialize_with = "null_as_default")]
    pub physical: u64,
    /// Discard granularity.
    pub discard_granularity: Option<u64>,
}

impl Disk {
    /// The bus of the disk, LUN or CD-ROM; empty if none is set.
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
