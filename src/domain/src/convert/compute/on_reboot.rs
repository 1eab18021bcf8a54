//! The domain's action when the guest reboots.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::DomainSpec;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.on_reboot = match context.vmi.spec.domain.reboot_policy.as_deref() {
        None => return Ok(()),
        Some("Terminate") => "destroy".into(),
        Some("Reboot") => "restart".into(),
        Some(policy) => {
            return Err(ConvertError::Value {
                field: "spec.domain.rebootPolicy".into(),
                value: policy.into(),
                allowed: "Reboot or Terminate",
            });
        }
    };
    Ok(())
}
