//! The file or device that holds a disk's data.

use crate::libvirt_spec::{Disk, DiskSource};

/// The file or device that holds a disk's data: the data store behind an image, or the image itself.
pub(crate) struct DiskBackend {
    pub(crate) path: String,
    pub(crate) is_block: bool,
}

impl DiskBackend {
    pub(crate) fn from_disk(disk: &Disk) -> Option<Self> {
        Self::from_data_store(disk).or_else(|| Self::from_source(&disk.source))
    }

    /// The data store behind an image that only tracks changed blocks.
    pub(crate) fn from_data_store(disk: &Disk) -> Option<Self> {
        let store = disk.source.data_store.as_ref()?;
        Self::from_source(store.source.as_ref()?)
    }

    pub(crate) fn from_source(source: &DiskSource) -> Option<Self> {
        let (path, is_block) = match (source.file.as_str(), source.dev.as_str()) {
            ("", "") => return None,
            ("", device) => (device, true),
            (file, _) => (file, false),
        };
        Some(Self {
            path: path.to_owned(),
            is_block,
        })
    }
}
