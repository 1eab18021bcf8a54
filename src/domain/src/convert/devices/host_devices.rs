//! Devices of the host given to the guest, from device plugins, resource claims and networks.

use crate::convert::conversion_inputs::Context;
use crate::convert::conversion_purpose::Purpose;
use crate::convert::devices::sriov;
use crate::convert::devices::{device_plugins, resource_claim_devices};
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, HostDevice};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.purpose == Purpose::MigrationTarget {
        spec.devices.host_devices.extend(migrated_vgpu(context)?);
        return Ok(());
    }
    let of_networks = sriov::devices(context)?;
    let mut others = device_plugins::host_devices(context)?;
    others.extend(resource_claim_devices::host_devices(context)?);
    let mut gpus = device_plugins::gpus(context)?;
    gpus.extend(resource_claim_devices::gpus(context)?);
    let devices = &mut spec.devices.host_devices;
    devices.extend(others);
    devices.extend(gpus);
    devices.extend(of_networks);
    Ok(())
}

/// The one mediated device with which a VM can migrate, if the cluster allows it. Other devices are detached before a
/// migration and attached after it.
pub(crate) fn migrated_vgpu(context: &Context<'_>) -> Result<Option<HostDevice>, ConvertError> {
    const MEDIATED: &str = "mdev";
    if !context.cluster.vgpu_live_migration_enabled {
        return Ok(None);
    }
    let mut gpus = device_plugins::gpus(context)?;
    gpus.extend(resource_claim_devices::gpus(context)?);
    let is_mediated = gpus.first().is_some_and(|gpu| gpu.kind == MEDIATED);
    match gpus.len() {
        1 if is_mediated && !context.host.serves_migration_hook => {
            Err(ConvertError::refused(format!(
                "vGPU live migration requires LibvirtHooksServerAndClient feature gate for vmi {}",
                context.vmi.name()
            )))
        }
        1 if is_mediated => Ok(gpus.pop()),
        count if count > 1 && is_mediated => Err(ConvertError::refused(format!(
            "vGPU live migration currently only supports a single vGPU, found {count} for vmi {}",
            context.vmi.name()
        ))),
        _ => Ok(None),
    }
}
