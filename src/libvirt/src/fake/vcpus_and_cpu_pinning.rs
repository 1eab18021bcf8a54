//! The number and the pinning of a simulated domain's virtual CPUs.

use super::Call;
use super::domain_handle::FakeDomain;
use crate::devices::Affect;
use crate::error::Result;
use crate::vcpus_and_cpu_pinning::Vcpus;

impl Vcpus for FakeDomain {
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()> {
        self.with_domain(Call::SetVcpus, |domain| domain.set_vcpus(count, of))
    }

    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], _of: Affect) -> Result<()> {
        self.with_domain(Call::PinVcpu, |domain| domain.pin(Some(vcpu), cpus))
    }

    fn pin_emulator(&self, cpus: &[u32], _of: Affect) -> Result<()> {
        self.with_domain(Call::PinEmulator, |domain| domain.pin(None, cpus))
    }
}
