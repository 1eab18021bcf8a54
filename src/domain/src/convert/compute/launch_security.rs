//! Confidential computing.

use crate::convert::context::Context;
use crate::convert::error::ConvertError;
use crate::spec::DomainSpec;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.launch_security = context.architecture.launch_security(context.vmi)?;
    Ok(())
}
