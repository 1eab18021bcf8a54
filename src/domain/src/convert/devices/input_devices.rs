//! Input devices: the tablets of the VMI, and what the architecture adds for a display.

use kubevirt_api::vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::devices::graphics_and_video;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Alias, DomainSpec, Input};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    for input in &context.devices().inputs {
        spec.devices.inputs.push(convert(input)?);
    }
    if graphics_and_video::is_attached(context) {
        let has_tablet = !context.devices().inputs.is_empty();
        let extra = context.architecture.extra_inputs(has_tablet);
        spec.devices.inputs.extend(extra);
    }
    Ok(())
}

/// Converts an input device, which can only be a tablet.
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
