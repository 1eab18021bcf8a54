//! The calls about the launch security of a simulated domain.

use super::Call;
use super::domain_handle::FakeDomain;
use crate::error::{Error, Result, code, origin};
use crate::launch_security::{LaunchSecret, LaunchSecurity, LaunchSecurityInfo};

impl LaunchSecurity for FakeDomain {
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            let info = domain.launch_security.info.clone();
            // libvirt reports nothing of a domain without launch security, and no error.
            Ok(info.unwrap_or_default())
        })
    }

    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            if domain.launch_security.info.is_none() {
                return Err(Error {
                    code: code::OPERATION_UNSUPPORTED,
                    domain: origin::QEMU,
                    message: "Operation not supported: launch security type is not SEV".into(),
                });
            }
            domain.launch_security.secret = Some(secret.clone());
            Ok(())
        })
    }
}
