//! Launch security of a simulated domain.

use super::Call;
use super::domain_handle::FakeDomain;
use super::errors::qemu_error;
use crate::error::{Result, code};
use crate::launch_security::{LaunchSecret, LaunchSecurity, LaunchSecurityInfo};

impl LaunchSecurity for FakeDomain {
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            let info = domain.launch_security.info.clone();
            // For a domain without launch security libvirt reports no values, and no error.
            Ok(info.unwrap_or_default())
        })
    }

    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            if domain.launch_security.info.is_none() {
                return Err(qemu_error(
                    code::OPERATION_UNSUPPORTED,
                    "Operation not supported: launch security type is not SEV",
                ));
            }
            domain.launch_security.secret = Some(secret.clone());
            Ok(())
        })
    }
}
