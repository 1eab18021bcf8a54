//! Disks, their volumes, IO threads and file systems.

pub(crate) mod block_size;
pub(crate) mod block_size_lookups;
pub(crate) mod claim_sources;
pub(crate) mod disk_sources;
pub(crate) mod disk_target_names;
pub(crate) mod disks;
pub(crate) mod filesystems;
pub(crate) mod io_threads;
pub(crate) mod volume_mode_lookups;
pub(crate) mod volume_paths;
