//! Confidential guests.

use std::ffi::{CStr, c_int};
use std::ptr;

use virt_sys as sys;

use super::call::{c_string, check};
use super::connection::Connection;
use super::domain_handle::RealDomain;
use super::typed_params;
use crate::error::Result;
use crate::launch_security::{LaunchSecret, LaunchSecurity, LaunchSecurityInfo, SevInfo};
use crate::typed_params::ParamValue;

/// A list of parameters that libvirt allocated.
struct Params {
    raw: sys::virTypedParameterPtr,
    count: c_int,
    capacity: c_int,
}

impl Params {
    const fn new() -> Params {
        Params {
            raw: ptr::null_mut(),
            count: 0,
            capacity: 0,
        }
    }

    fn copy(&self) -> Vec<(String, ParamValue)> {
        // SAFETY: libvirt has set as many parameters as it counts; they live as long as `self`.
        unsafe { typed_params::copy(self.raw, self.count) }
    }

    fn add(&mut self, name: &CStr, what: &str, value: &str) -> Result<()> {
        let value = c_string(what, value)?;
        // SAFETY: list, count and capacity belong together; name and value are NUL-terminated and are copied.
        check(unsafe {
            sys::virTypedParamsAddString(
                &raw mut self.raw,
                &raw mut self.count,
                &raw mut self.capacity,
                name.as_ptr(),
                value.as_ptr(),
            )
        })
        .map(drop)
    }
}

impl Drop for Params {
    fn drop(&mut self) {
        // SAFETY: the list is libvirt's own (or null, which it accepts) and is not used again.
        unsafe { sys::virTypedParamsFree(self.raw, self.count) };
    }
}

fn text(params: &[(String, ParamValue)], name: &CStr) -> String {
    let found = params
        .iter()
        .find(|(one, _)| one.as_bytes() == name.to_bytes());
    let text = found.and_then(|(_, value)| value.as_str());
    text.unwrap_or_default().to_owned()
}

fn number(params: &[(String, ParamValue)], name: &CStr) -> u64 {
    let found = params
        .iter()
        .find(|(one, _)| one.as_bytes() == name.to_bytes());
    found.and_then(|(_, value)| value.as_u64()).unwrap_or(0)
}

/// The SEV firmware of the connection's host.
pub(super) fn sev_info(connection: &Connection) -> Result<SevInfo> {
    let mut params = Params::new();
    // SAFETY: the connection is open, and the list has a place to go.
    check(unsafe {
        sys::virNodeGetSEVInfo(
            connection.as_ptr(),
            &raw mut params.raw,
            &raw mut params.count,
            0,
        )
    })?;
    let params = params.copy();
    Ok(SevInfo {
        pdh: text(&params, sys::VIR_NODE_SEV_PDH),
        cert_chain: text(&params, sys::VIR_NODE_SEV_CERT_CHAIN),
    })
}

impl LaunchSecurity for RealDomain {
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo> {
        let mut params = Params::new();
        // SAFETY: the domain is valid, and the list has a place to go.
        check(unsafe {
            sys::virDomainGetLaunchSecurityInfo(
                self.as_ptr(),
                &raw mut params.raw,
                &raw mut params.count,
                0,
            )
        })?;
        let params = params.copy();
        Ok(LaunchSecurityInfo {
            measurement: text(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_MEASUREMENT),
            api_major: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_API_MAJOR),
            api_minor: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_API_MINOR),
            build_id: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_BUILD_ID),
            policy: number(&params, sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_POLICY),
        })
    }

    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()> {
        let mut params = Params::new();
        params.add(
            sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_SECRET_HEADER,
            "header of the launch secret",
            &secret.header,
        )?;
        params.add(
            sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_SECRET,
            "launch secret",
            &secret.secret,
        )?;
        // SAFETY: the domain is valid, the list has as many parameters as is said, and libvirt copies them.
        check(unsafe {
            sys::virDomainSetLaunchSecurityState(self.as_ptr(), params.raw, params.count, 0)
        })
        .map(drop)
    }
}
