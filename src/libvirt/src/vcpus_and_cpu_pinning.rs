//! Virtual CPUs of a domain.

use crate::devices::Affect;
use crate::error::Result;

/// The number of virtual CPUs, and the host CPUs that they are pinned to.
pub trait Vcpus {
    /// Sets the number of virtual CPUs, at most the domain's maximum. If the guest does not release a CPU, libvirt
    /// fails after 5 s; the guest may have released other CPUs by then.
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()>;

    /// Pins the virtual CPU `vcpu` to the host CPUs `cpus`.
    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], of: Affect) -> Result<()>;

    /// Pins QEMU's own threads to the host CPUs `cpus`.
    fn pin_emulator(&self, cpus: &[u32], of: Affect) -> Result<()>;
}
