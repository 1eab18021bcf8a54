//! The TPM, emulated by swtpm.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, Tpm, TpmBackend};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.vmi.tpm().is_none() {
        return Ok(());
    }
    let is_persistent = context.vmi.has_persistent_tpm();
    spec.devices.tpms.push(Tpm {
        model: context.architecture.tpm_model(is_persistent).into(),
        backend: TpmBackend {
            kind: "emulator".into(),
            version: "2.0".into(),
            persistent_state: if is_persistent { "yes" } else { "" }.into(),
        },
    });
    Ok(())
}
