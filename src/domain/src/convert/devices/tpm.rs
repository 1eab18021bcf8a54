//! The TPM, emulated by swtpm.

use crate::convert::context::Context;
use crate::convert::error::ConvertError;
use crate::spec::{DomainSpec, Tpm, TpmBackend};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let Some(tpm) = context
        .devices()
        .tpm
        .as_ref()
        .filter(|tpm| tpm.enabled.unwrap_or(true))
    else {
        return Ok(());
    };
    let is_persistent = tpm.persistent == Some(true);
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
