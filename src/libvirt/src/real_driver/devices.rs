//! Attaching, detaching and updating devices of a domain.

use std::ffi::c_uint;

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check};
use super::domain_handle::RealDomain;
use crate::devices::{Affect, Devices};
use crate::error::Result;

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
}

/// Asserts that the flags of device calls have the values of `VIR_DOMAIN_AFFECT_*`, which `affect_flags` returns.
const _: () = {
    let devices: [c_uint; 2] = [
        sys::VIR_DOMAIN_DEVICE_MODIFY_LIVE,
        sys::VIR_DOMAIN_DEVICE_MODIFY_CONFIG,
    ];
    let affected: [c_uint; 2] = [sys::VIR_DOMAIN_AFFECT_LIVE, sys::VIR_DOMAIN_AFFECT_CONFIG];
    assert!(devices[0] == affected[0] && devices[1] == affected[1]);
};

pub(super) fn affect_flags(of: Affect) -> c_uint {
    match of {
        Affect::Live => sys::VIR_DOMAIN_AFFECT_LIVE,
        Affect::Config => sys::VIR_DOMAIN_AFFECT_CONFIG,
        Affect::LiveAndConfig => sys::VIR_DOMAIN_AFFECT_LIVE | sys::VIR_DOMAIN_AFFECT_CONFIG,
    }
}
