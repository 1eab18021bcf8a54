//! Virtual processors of a domain.

use crate::devices::Affect;
use crate::error::Result;

/// The number of virtual processors, and where they run.
pub trait Vcpus {
    /// Sets the number of processors, at most the domain's maximum. For a guest that keeps processors libvirt waits 5 s
    /// and fails; some may be gone then.
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()>;

    /// Lets processor `vcpu` run on the host's processors `cpus` only.
    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], of: Affect) -> Result<()>;

    /// Lets QEMU's own threads run on the host's processors `cpus` only.
    fn pin_emulator(&self, cpus: &[u32], of: Affect) -> Result<()>;
}
