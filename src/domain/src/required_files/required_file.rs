//! A file that must exist before the VM starts.

use crate::cloud_init::DataSource;
use crate::required_files::config_iso::ConfigIso;

/// A file that must exist before the VM starts: made by the launcher, or checked by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredFile {
    /// An empty qcow2 image.
    EmptyDisk {
        /// The volume.
        volume: String,
        /// Path of the image.
        path: String,
        /// The virtual size: whole mebibytes, at least one.
        bytes: u64,
    },
    /// A qcow2 image for the guest's writes, over a backing image that is only read.
    Overlay {
        /// The volume.
        volume: String,
        /// Path of the overlay.
        path: String,
        /// The backing image, which must exist.
        backing: String,
        /// The backing image's format, `qcow2` or `raw`.
        format: String,
    },
    /// The cloud-init image. It is written after define; its directory must exist before, since the disk's cache
    /// mode depends on the file system.
    CloudInitIso {
        /// The volume.
        volume: String,
        /// Path of the image.
        path: String,
        /// The kind of image.
        data_source: DataSource,
        /// Bytes that the image has at least; 0 unless it takes the place of the image on a migration's source.
        min_bytes: u64,
    },
    /// An image made of a configuration directory of the pod.
    ConfigIso(ConfigIso),
    /// A raw image on the node or on a claim. virt-handler makes a missing one.
    HostDisk {
        /// The volume.
        volume: String,
        /// Path of the image.
        path: String,
        /// The size of a new image: whole mebibytes.
        bytes: u64,
    },
    /// A qcow2 image that holds only the bitmaps of changed blocks; the data stay in a raw image.
    ChangedBlocks {
        /// The volume.
        volume: String,
        /// Path of the qcow2 image.
        path: String,
        /// The raw image or the device, which must exist.
        data: String,
        /// Whether the data are on a block device.
        is_block: bool,
    },
    /// The disk through which virt-handler publishes the node's metrics to the guest.
    DownwardMetrics {
        /// The volume.
        volume: String,
        /// Path of the disk.
        path: String,
    },
    /// Ignition data for Fedora CoreOS guests, passed through the firmware.
    Ignition {
        /// Path of the file.
        path: String,
        /// The file's content.
        content: String,
    },
    /// Kernel and initrd, which come with the container disks and must exist.
    KernelBoot {
        /// Paths of the kernel and the initrd, if they are used.
        artifacts: Vec<String>,
    },
}
