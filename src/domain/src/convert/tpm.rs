//! The TPM, emulated by swtpm.

use super::{Context, ConvertError};
use crate::spec::{DomainSpec, Tpm, TpmBackend};

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let Some(tpm) = context
        .devices()
        .tpm
        .as_ref()
        .filter(|tpm| tpm.enabled.unwrap_or(true))
    else {
        return Ok(());
    };
    let (model, persistent_state) = if tpm.persistent == Some(true) {
        ("tpm-crb", "yes")
    } else {
        ("tpm-tis", "")
    };
    spec.devices.tpms.push(Tpm {
        model: model.into(),
        backend: TpmBackend {
            kind: "emulator".into(),
            version: "2.0".into(),
            persistent_state: persistent_state.into(),
        },
    });
    Ok(())
}
