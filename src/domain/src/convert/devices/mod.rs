//! Devices other than disks, file systems and network interfaces.

pub(crate) mod balloon;
pub(crate) mod console_and_channels;
pub(crate) mod controllers;
pub(crate) mod device_plugin_addresses;
pub(crate) mod device_plugin_devices;
pub(crate) mod graphics_and_video;
pub(crate) mod host_device_numa_placement;
pub(crate) mod host_devices;
pub(crate) mod hostdev_element;
pub(crate) mod input_devices;
pub(crate) mod iommufd;
pub(crate) mod nvidia_grace_requirements;
pub(crate) mod panic_devices;
pub(crate) mod resource_claim_devices;
pub(crate) mod rng;
pub(crate) mod root_complex_placement;
pub(crate) mod sound;
pub(crate) mod sriov;
pub(crate) mod tpm;
pub(crate) mod usb_redirection;
pub(crate) mod vsock;
pub(crate) mod watchdog;
