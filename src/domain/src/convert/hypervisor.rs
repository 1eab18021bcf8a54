//! KVM, or emulation where that is allowed.

use super::{Context, ConvertError};
use crate::spec::DomainSpec;

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.host.kvm_available {
        return Ok(());
    }
    if !context.host.allow_emulation {
        return Err(ConvertError::refused(
            "kvm not present and emulation is not allowed",
        ));
    }
    spec.kind = "qemu".into();
    Ok(())
}
