//! The watchdog.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Alias, DomainSpec, Watchdog};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let Some(source) = &context.devices().watchdog else {
        return Ok(());
    };
    let Some((model, device)) = context.architecture.watchdog(source)? else {
        return Err(ConvertError::invalid(format!(
            "watchdog {} can't be mapped, no watchdog type specified",
            source.name
        )));
    };
    spec.devices.watchdogs.push(Watchdog {
        model: model.into(),
        action: device.action.clone(),
        alias: Some(Alias::user(&source.name)),
        address: None,
    });
    Ok(())
}
