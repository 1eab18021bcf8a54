//! What converts, but needs something of the launcher at run time that it does not do yet: images made
//! of configuration, DHCP options, Ignition files. The launcher asks before it starts such a VM.

use super::unsupported::find;
use super::{ConvertError, qemu_arguments};
use crate::vmi::{Vmi, Volume};

/// Checks that the launcher can serve all that the VMI asks for beyond its domain.
///
/// # Errors
/// [`ConvertError::Unsupported`] naming the first field that it cannot.
pub fn check_served(vmi: &Vmi) -> Result<(), ConvertError> {
    for (place, volume) in vmi.spec.volumes.iter().enumerate() {
        // A volume that no disk shows is mounted by others.
        if let Some(kind) = unserved(volume).filter(|_| vmi.disk(&volume.name).is_some()) {
            return Err(ConvertError::unsupported(format!(
                "spec.volumes[{place}].{kind}"
            )));
        }
    }
    if let Some(field) = find(
        vmi.value(),
        "spec.domain.devices.interfaces[].dhcpOptions",
        String::new(),
    ) {
        return Err(ConvertError::unsupported(field));
    }
    if qemu_arguments::has_ignition(vmi) {
        return Err(ConvertError::unsupported(format!(
            "the annotation {}",
            qemu_arguments::IGNITION
        )));
    }
    Ok(())
}

/// The kind of a volume that would need an image made for it.
fn unserved(volume: &Volume) -> Option<&'static str> {
    let creates_host_disk = volume
        .host_disk
        .as_ref()
        .is_some_and(|disk| disk.kind == "DiskOrCreate");
    let kinds = [
        (volume.config_map.is_some(), "configMap"),
        (volume.secret.is_some(), "secret"),
        (volume.downward_api.is_some(), "downwardAPI"),
        (volume.service_account.is_some(), "serviceAccount"),
        (volume.sysprep.is_some(), "sysprep"),
        (volume.downward_metrics.is_some(), "downwardMetrics"),
        (creates_host_disk, "hostDisk of type DiskOrCreate"),
    ];
    kinds
        .into_iter()
        .find_map(|(is_it, kind)| is_it.then_some(kind))
}
