//! Makes the disk images that a start needs, such as empty disks and overlays of images that must not be written to,
//! and inspects untrusted images.
//!
//! [`domain::required_files`] decides which files are needed. qemu-img makes the images, as a child process with a
//! deadline. Container disks are not trusted: memory and CPU time of the child that opens them are limited. An image
//! gets its final name only when it is complete, so that a repeated start continues where an interrupted one stopped.

mod changed_block_tracking;
mod container_disk_inspection;
mod downward_metrics_disk;
mod driver_mode_probe;
mod error;
mod file_presence;
mod host_disk;
mod image_expansion;
mod pending_image;
mod pending_qcow2_image;
mod qcow2_virtual_size;
mod qemu_img;
mod required_files;

pub(crate) use container_disk_inspection::inspect_container_disks;
pub(crate) use driver_mode_probe::DriverModeProbe;
pub(crate) use error::DiskImageError;
pub(crate) use image_expansion::{expand, possible_size};
pub(crate) use qemu_img::DiskTools;
pub(crate) use required_files::prepare_required_files;

#[cfg(test)]
mod tests;
