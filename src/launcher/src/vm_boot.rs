//! Prepares what a boot needs in the pod: disk images, cloud-init image, config disks, the guest's network.
//!
//! [`boot_resources`] is the facade for the manager. Each other module prepares one kind of resource.

pub(crate) mod boot_resources;
pub(crate) mod cloud_init_image;
mod config_disks;
pub(crate) mod disk_images;
pub(crate) mod host_facts;
pub(crate) mod image_volumes;
mod iso9660;
pub(crate) mod migration_target_sockets;
mod network;
