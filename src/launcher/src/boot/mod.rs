//! What a boot prepares in the pod: disks, cloud-init data, images of configuration, the guest's network.
//!
//! [`boot_resources`] is the facade that the manager uses; each other module prepares one kind of resource.

pub(crate) mod boot_resources;
pub(crate) mod cloud_init;
mod config_disks;
pub(crate) mod disk_images;
pub(crate) mod host_facts;
pub(crate) mod image_volumes;
mod iso9660;
pub(crate) mod migration_sockets;
mod network;
