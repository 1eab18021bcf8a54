//! `spec.domain.devices`; disks, interfaces, GPUs and host devices have modules of their own.

use serde::Deserialize;

use super::{Disk, Gpu, HostDevice, Interface, null_as_default};

/// Devices.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Devices {
    /// Disks.
    #[serde(deserialize_with = "null_as_default")]
    pub disks: Vec<Disk>,
    /// Interfaces.
    #[serde(deserialize_with = "null_as_default")]
    pub interfaces: Vec<Interface>,
    /// Input devices.
    #[serde(deserialize_with = "null_as_default")]
    pub inputs: Vec<Input>,
    /// Whether the guest gets a display.
    pub autoattach_graphics_device: Option<bool>,
    /// Whether the guest gets a serial console.
    pub autoattach_serial_console: Option<bool>,
    /// Whether the serial console is logged.
    pub log_serial_console: Option<bool>,
    /// Whether the guest gets a memory balloon.
    pub autoattach_mem_balloon: Option<bool>,
    /// Creates no spare ports for hotplug.
    #[serde(deserialize_with = "null_as_default")]
    pub disable_hotplug: bool,
    /// Multiple queues for every virtio disk.
    pub block_multi_queue: Option<bool>,
    /// Multiple queues for every virtio interface.
    #[serde(rename = "networkInterfaceMultiqueue")]
    pub network_interface_multiqueue: Option<bool>,
    /// An entropy device.
    pub rng: Option<serde_json::Value>,
    /// Whether virtio devices are transitional: they also work with drivers from before virtio 1.0.
    pub use_virtio_transitional: Option<bool>,
    /// A watchdog.
    pub watchdog: Option<Watchdog>,
    /// A TPM.
    pub tpm: Option<Tpm>,
    /// A sound card.
    pub sound: Option<Sound>,
    /// The video card.
    pub video: Option<Video>,
    /// Devices through which the guest reports a panic.
    #[serde(deserialize_with = "null_as_default")]
    pub panic_devices: Vec<PanicDevice>,
    /// Set if clients can redirect USB devices.
    pub client_passthrough: Option<serde_json::Value>,
    /// Directories shared with the guest.
    #[serde(deserialize_with = "null_as_default")]
    pub filesystems: Vec<Filesystem>,
    /// Set if the guest gets the host's metrics.
    pub downward_metrics: Option<serde_json::Value>,
    /// GPUs.
    #[serde(deserialize_with = "null_as_default")]
    pub gpus: Vec<Gpu>,
    /// Other devices of the node.
    #[serde(deserialize_with = "null_as_default")]
    pub host_devices: Vec<HostDevice>,
}

/// An input device.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Input {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// `usb` or `virtio`.
    #[serde(deserialize_with = "null_as_default")]
    pub bus: String,
    /// Only `tablet` is supported.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
}

/// A watchdog.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Watchdog {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Intel's 6300ESB.
    pub i6300esb: Option<WatchdogAction>,
    /// s390x's diag288.
    pub diag288: Option<WatchdogAction>,
}

/// The action of a watchdog.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct WatchdogAction {
    /// `poweroff`, `reset` or `shutdown`.
    #[serde(deserialize_with = "null_as_default")]
    pub action: String,
}

/// A TPM.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Tpm {
    /// On by default.
    pub enabled: Option<bool>,
    /// Whether the TPM's state is persistent.
    pub persistent: Option<bool>,
}

/// A sound card.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Sound {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// `ich9` or `ac97`.
    #[serde(deserialize_with = "null_as_default")]
    pub model: String,
}

/// A video card.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Video {
    /// libvirt's model name.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
}

/// A device through which the guest reports a panic.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PanicDevice {
    /// libvirt's model name.
    pub model: Option<String>,
}

/// A directory shared with the guest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Filesystem {
    /// Name; also the mount tag.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Set if the directory is shared through virtiofs.
    pub virtiofs: Option<serde_json::Value>,
}
