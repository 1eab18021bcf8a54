//! Launch security of confidential guests.

use std::ffi::CStr;

use virt_sys as sys;

use super::c_strings_and_errors::check;
use super::connection_handle::Connection;
use super::domain_handle::RealDomain;
use super::typed_param_list::TypedParamList;
use crate::error::Result;
use crate::launch_security::{LaunchSecret, LaunchSecurity, LaunchSecurityInfo, SevInfo};
use crate::typed_params::{ParamValue, find};

fn text(params: &[(String, ParamValue)], name: &CStr) -> String {
    let text = find(params, name).and_then(ParamValue::as_str);
    text.unwrap_or_default().to_owned()
}

fn number(params: &[(String, ParamValue)], name: &CStr) -> u64 {
    find(params, name).and_then(ParamValue::as_u64).unwrap_or(0)
}

/// The SEV firmware of the connection's host.
pub(super) fn sev_info(connection: &Connection) -> Result<SevInfo> {
    let mut params = TypedParamList::new()?;
    let (list, count) = params.receive();
    // SAFETY: the connection is open, and the pointers to the list and its length are valid.
    check(unsafe { sys::virNodeGetSEVInfo(connection.as_ptr(), list, count, 0) })?;
    let params = params.copy();
    Ok(SevInfo {
        pdh: text(&params, sys::VIR_NODE_SEV_PDH),
        cert_chain: text(&params, sys::VIR_NODE_SEV_CERT_CHAIN),
    })
}

impl LaunchSecurity for RealDomain {
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo> {
        let mut params = TypedParamList::new()?;
        let (list, count) = params.receive();
        // SAFETY: the domain is valid, and the pointers to the list and its length are valid.
        check(unsafe { sys::virDomainGetLaunchSecurityInfo(self.as_ptr(), list, count, 0) })?;
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
        let mut params = TypedParamList::new()?;
        params.add_text(
            sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_SECRET_HEADER,
            &secret.header,
        )?;
        params.add_text(sys::VIR_DOMAIN_LAUNCH_SECURITY_SEV_SECRET, &secret.secret)?;
        let (list, count) = params.as_ptr();
        // SAFETY: the domain is valid, the list has as many parameters as the count says, and libvirt copies them.
        check(unsafe {
            sys::virDomainSetLaunchSecurityState(self.as_ptr(), list, count.cast_signed(), 0)
        })
        .map(drop)
    }
}
