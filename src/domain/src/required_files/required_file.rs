//! A file that must exist before the VM starts.

use crate::cloud_init::DataSource;
use crate::required_files::config_iso::ConfigIso;

/// A file that must exist before the VM starts. The launcher creates it, or checks that it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredFile {
    /// An empty qcow2 image.
    EmptyDisk {
        /// The volume.
        volume: String,
        /// Path of the image.
        path: String,
        /// The virtual size in bytes, a multiple of a mebibyte.
        bytes: u64,
    },
    /// A qcow2 image for the guest's writes, over a read-only backing image.
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
    /// The cloud-init image. It is written after the domain is defined, but its directory must exist before, because
    /// the disk's cache mode depends on the file system.
    CloudInitIso {
        /// The volume.
        volume: String,
        /// Path of the image.
        path: String,
        /// The kind of image.
        data_source: DataSource,
        /// The minimum size of the image in bytes: that of the source's image on a migration target, else 0.
        min_bytes: u64,
    },
    /// An image with the files of a configuration directory of the pod.
    ConfigIso(ConfigIso),
    /// A raw image on the node or on a claim. virt-handler creates it if it is missing.
    HostDisk {
        /// The volume.
        volume: String,
        /// Path of the image.
        path: String,
        /// The size of a new image in bytes, a multiple of a mebibyte.
        bytes: u64,
    },
    /// A qcow2 image that contains only the bitmaps of changed blocks. The data is in a raw image or a block device.
    ChangedBlocks {
        /// The volume.
        volume: String,
        /// Path of the qcow2 image.
        path: String,
        /// The raw image or the block device, which must exist.
        data: String,
        /// Whether the data is on a block device.
        is_block: bool,
    },
    /// The disk through which virt-handler publishes the node's metrics to the guest.
    DownwardMetrics {
        /// The volume.
        volume: String,
        /// Path of the disk.
        path: String,
    },
    /// Ignition data for Fedora CoreOS guests, which QEMU passes through the firmware configuration device.
    Ignition {
        /// Path of the file.
        path: String,
        /// The file's content.
        content: String,
    },
    /// Kernel and initrd from a container image. They must exist.
    KernelBoot {
        /// Paths of the kernel and the initrd, if they are used.
        artifacts: Vec<String>,
    },
}
