//! Devices and processors of a domain.

use std::ffi::c_uint;

use virt_sys as sys;

use super::call_libvirt::{c_string, check};
use super::domain_definition::affect_flags;
use super::domain_handle::RealDomain;
use crate::devices::Devices;
use crate::domain_definition::Affect;
use crate::error::{Error, Result};

/// More processors than any host has: a longer map is a mistake of the caller's.
const MAX_HOST_CPUS: u32 = 1 << 16;

impl Devices for RealDomain {
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()> {
        let xml = c_string("device", xml)?;
        // SAFETY: the domain is valid, the XML NUL-terminated.
        check(unsafe {
            sys::virDomainAttachDeviceFlags(self.as_ptr(), xml.as_ptr(), affect_flags(to))
        })
        .map(drop)
    }

    fn detach_device(&self, xml: &str, from: Affect) -> Result<()> {
        let xml = c_string("device", xml)?;
        // SAFETY: the domain is valid, the XML NUL-terminated.
        check(unsafe {
            sys::virDomainDetachDeviceFlags(self.as_ptr(), xml.as_ptr(), affect_flags(from))
        })
        .map(drop)
    }

    fn update_device(&self, xml: &str, of: Affect) -> Result<()> {
        let xml = c_string("device", xml)?;
        // SAFETY: the domain is valid, the XML NUL-terminated.
        check(unsafe {
            sys::virDomainUpdateDeviceFlags(self.as_ptr(), xml.as_ptr(), affect_flags(of))
        })
        .map(drop)
    }

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

/// libvirt's bit map: processor 0 is the lowest bit of the first byte.
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

/// `VIR_DOMAIN_AFFECT_*` have the same values in all these calls.
const _: () = {
    let devices: [c_uint; 2] = [
        sys::VIR_DOMAIN_DEVICE_MODIFY_LIVE,
        sys::VIR_DOMAIN_DEVICE_MODIFY_CONFIG,
    ];
    let affected: [c_uint; 2] = [sys::VIR_DOMAIN_AFFECT_LIVE, sys::VIR_DOMAIN_AFFECT_CONFIG];
    assert!(devices[0] == affected[0] && devices[1] == affected[1]);
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn cpu_map_has_a_bit_for_each_processor() {
        assert_eq!(cpu_map(&[0]).unwrap(), [1]);
        assert_eq!(cpu_map(&[1, 8, 15]).unwrap(), [2, 0x81]);
        assert_eq!(cpu_map(&[]).unwrap(), [0]);
        assert!(cpu_map(&[u32::MAX]).is_err());
    }
}
