//! Host devices of the guest, from device plugins, resource claims and SR-IOV networks.

use crate::convert::conversion_inputs::Context;
use crate::convert::conversion_purpose::Purpose;
use crate::convert::devices::sriov;
use crate::convert::devices::{device_plugin_devices, resource_claim_devices};
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, HostDevice};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.purpose == Purpose::MigrationTarget {
        spec.devices.host_devices.extend(migrated_vgpu(context)?);
        return Ok(());
    }
    let sriov_devices = sriov::devices(context)?;
    let mut other_devices = device_plugin_devices::host_devices(context)?;
    other_devices.extend(resource_claim_devices::host_devices(context)?);
    let mut gpus = device_plugin_devices::gpus(context)?;
    gpus.extend(resource_claim_devices::gpus(context)?);
    let devices = &mut spec.devices.host_devices;
    devices.extend(other_devices);
    devices.extend(gpus);
    devices.extend(sriov_devices);
    Ok(())
}

/// The vGPU (mediated device) that stays attached during a migration, if the cluster allows this. Other host devices
/// are detached before a migration and attached after it.
pub(crate) fn migrated_vgpu(context: &Context<'_>) -> Result<Option<HostDevice>, ConvertError> {
    const MEDIATED_DEVICE: &str = "mdev";
    if !context.cluster.vgpu_live_migration_enabled {
        return Ok(None);
    }
    let mut gpus = device_plugin_devices::gpus(context)?;
    gpus.extend(resource_claim_devices::gpus(context)?);
    let is_mediated = gpus.first().is_some_and(|gpu| gpu.kind == MEDIATED_DEVICE);
    match gpus.len() {
        1 if is_mediated && !context.host.serves_migration_hook => {
            Err(ConvertError::invalid(format!(
                "vGPU live migration requires LibvirtHooksServerAndClient feature gate for vmi {}",
                context.vmi.name()
            )))
        }
        1 if is_mediated => Ok(gpus.pop()),
        count if count > 1 && is_mediated => Err(ConvertError::invalid(format!(
            "vGPU live migration currently only supports a single vGPU, found {count} for vmi {}",
            context.vmi.name()
        ))),
        _ => Ok(None),
    }
}
