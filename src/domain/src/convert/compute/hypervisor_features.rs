//! Hypervisor features.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::DomainSpec;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let requested = context.vmi.spec.domain.features.as_ref();
    let features =
        requested.map(|features| context.architecture.features(features, context.protection));
    spec.features = Some(features.unwrap_or_default());
    Ok(())
}
