//! Devices of the host given to the guest, from device plugins, resource claims and networks.

use crate::convert::context::Context;
use crate::convert::devices::sriov;
use crate::convert::devices::{claimed_devices, device_plugins};
use crate::convert::error::ConvertError;
use crate::spec::DomainSpec;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let of_networks = sriov::devices(context)?;
    let mut others = device_plugins::host_devices(context)?;
    others.extend(claimed_devices::host_devices(context)?);
    let mut gpus = device_plugins::gpus(context)?;
    gpus.extend(claimed_devices::gpus(context)?);
    let devices = &mut spec.devices.host_devices;
    devices.extend(others);
    devices.extend(gpus);
    devices.extend(of_networks);
    Ok(())
}
