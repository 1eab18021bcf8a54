//! The domain type: the hypervisor, or emulation if there is none and emulation is allowed.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::DomainSpec;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let (native, missing) = match context.host.hypervisor.as_str() {
        "hyperv-direct" => ("hyperv", "MSHV not present"),
        _ => ("kvm", context.behaviour().kvm_missing),
    };
    spec.kind = match (context.host.kvm_available, context.host.allow_emulation) {
        (true, _) => native.into(),
        (false, true) => "qemu".into(),
        (false, false) => return Err(ConvertError::invalid(missing)),
    };
    Ok(())
}
