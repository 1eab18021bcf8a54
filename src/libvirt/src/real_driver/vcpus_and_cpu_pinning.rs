//! The number of a domain's virtual CPUs, and their pinning to host CPUs.

use virt_sys as sys;

use super::c_strings_and_errors::check;
use super::devices::affect_flags;
use super::domain_handle::RealDomain;
use crate::devices::Affect;
use crate::error::{Error, Result};
use crate::vcpus_and_cpu_pinning::Vcpus;

/// More CPUs than any host has. A higher CPU number is an error of the caller.
const MAX_HOST_CPUS: u32 = 1 << 16;

impl Vcpus for RealDomain {
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSetVcpusFlags(self.as_ptr(), count, affect_flags(of)) })
            .map(drop)
    }

    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], of: Affect) -> Result<()> {
        let mut map = cpu_map(cpus)?;
        // SAFETY: the domain is valid, and the map has the length that is passed.
        check(unsafe {
            sys::virDomainPinVcpuFlags(
                self.as_ptr(),
                vcpu,
                map.as_mut_ptr(),
                map_length(&map),
                affect_flags(of),
            )
        })
        .map(drop)
    }

    fn pin_emulator(&self, cpus: &[u32], of: Affect) -> Result<()> {
        let mut map = cpu_map(cpus)?;
        // SAFETY: the domain is valid, and the map has the length that is passed.
        check(unsafe {
            sys::virDomainPinEmulator(
                self.as_ptr(),
                map.as_mut_ptr(),
                map_length(&map),
                affect_flags(of),
            )
        })
        .map(drop)
    }
}

/// libvirt's bit map of host CPUs: CPU 0 is the lowest bit of the first byte.
fn cpu_map(cpus: &[u32]) -> Result<Vec<u8>> {
    let last = cpus.iter().max().copied().unwrap_or_default();
    if last >= MAX_HOST_CPUS {
        return Err(Error::invalid_argument(&format!(
            "the host has no processor {last}"
        )));
    }
    let mut map = vec![0; usize::try_from(last / 8).unwrap_or_default() + 1];
    for cpu in cpus {
        let byte = usize::try_from(cpu / 8).ok();
        if let Some(byte) = byte.and_then(|byte| map.get_mut(byte)) {
            *byte |= 1 << (cpu % 8);
        }
    }
    Ok(map)
}

fn map_length(map: &[u8]) -> i32 {
    i32::try_from(map.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_map_has_a_bit_for_each_cpu() {
        assert_eq!(cpu_map(&[0]).unwrap(), [1]);
        assert_eq!(cpu_map(&[1, 8, 15]).unwrap(), [2, 0x81]);
        assert_eq!(cpu_map(&[]).unwrap(), [0]);
        assert!(cpu_map(&[u32::MAX]).is_err());
    }
}
