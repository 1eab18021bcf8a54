//! Confidential computing.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::DomainSpec;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.launch_security = context
        .architecture
        .launch_security(context.vmi, context.behaviour())?;
    Ok(())
}
