//! Devices of a domain.

use crate::error::Result;

/// Attaching, detaching and changing devices.
pub trait Devices {
    /// Attaches a device, given as its XML element.
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()>;

    /// Detaches a device, found by its XML element. Success means that the guest was asked: libvirt waits for it for 5 s at
    /// most, and a [`DeviceRemoved`](crate::Event::DeviceRemoved) event follows when it has let go.
    fn detach_device(&self, xml: &str, from: Affect) -> Result<()>;

    /// Changes a device: the medium of a drive, the link of an interface, the requested size of a memory device.
    fn update_device(&self, xml: &str, of: Affect) -> Result<()>;
}

/// Which of a domain's two configurations is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affect {
    /// The running one.
    Live,
    /// The persistent one.
    Config,
    /// Both.
    LiveAndConfig,
}
