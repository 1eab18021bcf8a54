//! Tablets, the only input devices that KubeVirt supports.

use kubevirt_api::vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Alias, DomainSpec, Input};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    for input in &context.devices().inputs {
        spec.devices.inputs.push(convert(input)?);
    }
    Ok(())
}

fn convert(input: &vmi::Input) -> Result<Input, ConvertError> {
    let bus = match input.bus.as_str() {
        "" => "usb",
        bus @ ("usb" | "virtio") => bus,
        bus => {
            return Err(ConvertError::invalid(format!(
                "input contains unsupported bus {bus}"
            )));
        }
    };
    if input.kind != "tablet" {
        return Err(ConvertError::invalid(format!(
            "input contains unsupported type {}",
            input.kind
        )));
    }
    let model = if bus == "virtio" { "virtio" } else { "" };
    Ok(Input {
        kind: input.kind.clone(),
        bus: bus.into(),
        alias: Some(Alias::user(&input.name)),
        model: model.into(),
        ..Input::default()
    })
}
