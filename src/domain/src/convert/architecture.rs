//! Which guests run on which nodes.

use super::{Context, ConvertError};
use crate::spec::DomainSpec;

/// So far amd64 on amd64 only.
pub(super) fn check(context: &Context<'_>, _spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let guest = match context.vmi.spec.architecture.as_str() {
        "" => &context.host.architecture,
        guest => guest,
    };
    if guest == "amd64" && context.host.architecture == "amd64" {
        return Ok(());
    }
    Err(ConvertError::unsupported(format!(
        "spec.architecture {guest} on {}",
        context.host.architecture
    )))
}
