//! Devices through which the guest reports a panic.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, PanicDevice};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let devices = context.devices().panic_devices.iter();
    spec.devices
        .panic_devices
        .extend(devices.map(|device| PanicDevice {
            model: device.model.clone(),
        }));
    Ok(())
}
