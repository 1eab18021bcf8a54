//! Devices and processors of a running domain.

use crate::domain_definition::Affect;
use crate::error::Result;

/// Attaching, detaching and changing devices and processors.
pub trait Devices {
    /// Attaches a device, given as its XML element.
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()>;

    /// Detaches a device, found by its XML element. Success means that the guest was asked: libvirt waits for it for 5 s at
    /// most, and a [`DeviceRemoved`](crate::Event::DeviceRemoved) event follows when it has let go.
    fn detach_device(&self, xml: &str, from: Affect) -> Result<()>;

    /// Changes a device: the medium of a drive, the link of an interface, the requested size of a memory device.
    fn update_device(&self, xml: &str, of: Affect) -> Result<()>;

    /// Sets the number of processors, at most the domain's maximum. For a guest that keeps processors libvirt waits 5 s
    /// and fails; some may be gone then.
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()>;

    /// Lets processor `vcpu` run on the host's processors `cpus` only.
    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], of: Affect) -> Result<()>;

    /// Lets QEMU's own threads run on the host's processors `cpus` only.
    fn pin_emulator(&self, cpus: &[u32], of: Affect) -> Result<()>;
}
