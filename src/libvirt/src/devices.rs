//! Devices of a domain.

use crate::error::Result;

/// Attaching, detaching and changing devices.
pub trait Devices {
    /// Attaches the device that an XML element describes.
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()>;

    /// Detaches the device that an XML element identifies. Success means that the guest was asked to release it.
    /// libvirt waits at most 5 s for the guest; a [`DeviceRemoved`](crate::Event::DeviceRemoved) event follows once the
    /// device is released.
    fn detach_device(&self, xml: &str, from: Affect) -> Result<()>;

    /// Changes a device: the medium of a drive, the link of an interface, the requested size of a memory device.
    fn update_device(&self, xml: &str, of: Affect) -> Result<()>;
}

/// The configurations of a domain that a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affect {
    /// The running configuration.
    Live,
    /// The persistent configuration.
    Config,
    /// Both.
    LiveAndConfig,
}
