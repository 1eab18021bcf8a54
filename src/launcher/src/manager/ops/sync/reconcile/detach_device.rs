//! Detaches devices. libvirt asks the guest to release the device, which may take long or never happen. Until the
//! device is gone, its overlay is kept, and every sync asks again.

use std::path::Path;

use domain::reconcile::{LiveDevice, LiveDomain};
use libvirt::Domain;

use super::Reconciliation;
use super::change_results::ChangeResult;
use crate::blocking;
use crate::libvirt_client::{COMMAND, request_detach};
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;
use crate::vm_boot::boot_resources::FILE_TIMEOUT;

impl Reconciliation<'_> {
    pub(super) async fn detach(&self, device: &LiveDevice) -> Result<ChangeResult, CommandError> {
        self.vm.driver_state().detaching.request(device);
        let xml = device.xml.clone();
        let detach = move |domain: &dyn Domain| request_detach(domain, &xml);
        self.vm
            .client
            .on(self.domain, "detaching a device", COMMAND, detach)
            .await?;
        Ok(ChangeResult::Applied)
    }
}

/// Removes the overlays of devices that the guest has released, and reports each device that it keeps once.
pub(super) async fn finish(vm: &VmContext, live: &LiveDomain) {
    let progress = vm
        .driver_state()
        .detaching
        .observe(|alias| live.has_alias(alias));
    for device in progress.kept {
        let warning = Warning {
            reason: "DeviceDetachPending",
            message: format!(
                "The guest has not released {device} yet; it stays attached until the guest does"
            ),
        };
        tracing::warn!("{}", warning.message);
        vm.notifier.warning(&warning);
    }
    for overlay in progress.overlays {
        remove_overlay(overlay).await;
    }
}

/// Removes an overlay. A failure is only logged, because the next disk of the volume uses an overlay that stays.
async fn remove_overlay(overlay: String) {
    let path = overlay.clone();
    let remove = move || std::fs::remove_file(Path::new(&path));
    let removed = blocking::file_call("removing an overlay", FILE_TIMEOUT, remove).await;
    let reason = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(overlay, reason, "the overlay of a detached disk stays");
}
