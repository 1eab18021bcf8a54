//! Detaches devices. libvirt asks the guest, which may take its time or refuse: until the device is gone, its overlay
//! stays, and every sync asks again.

use std::path::Path;

use domain::reconcile::{LiveDevice, LiveDomain};
use libvirt::{Affect, Domain};

use super::{Applied, Reconciliation};
use crate::blocking;
use crate::boot::resources::FILE_TIMEOUT;
use crate::libvirt_client::COMMAND;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;
use crate::notify::Warning;

/// What QEMU says about a device that the guest was asked for already.
const PENDING: &str = "already in the process of unplug";

impl Reconciliation<'_> {
    pub(super) async fn detach(&self, device: &LiveDevice) -> Result<Applied, OpError> {
        self.vm.driver_state().detaching.request(device);
        let xml = device.xml.clone();
        let detach = move |domain: &dyn Domain| detach(domain, &xml);
        self.vm
            .client
            .on(self.domain, "detaching a device", COMMAND, detach)
            .await?;
        Ok(Applied::Yes)
    }
}

/// Asks the guest for a device. The definition loses a device with the first request, so that further requests are
/// about the running domain only.
fn detach(domain: &dyn Domain, xml: &str) -> libvirt::Result<()> {
    let asked = match domain.detach_device(xml, Affect::LiveAndConfig) {
        Err(error) if error.is_device_missing() => domain.detach_device(xml, Affect::Live),
        result => result,
    };
    match asked {
        // It went meanwhile, or the guest has the request still.
        Err(error) if error.is_device_missing() || error.message.contains(PENDING) => Ok(()),
        result => result,
    }
}

/// Removes the overlays of devices that the guest has released; reports each device that it keeps, once.
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
        remove(overlay).await;
    }
}

/// An overlay that stays is used again by the next disk of its volume, so that a failure is only logged.
async fn remove(overlay: String) {
    let path = overlay.clone();
    let remove = move || std::fs::remove_file(Path::new(&path));
    let removed = blocking::call("removing an overlay", FILE_TIMEOUT, remove).await;
    let reason = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(overlay, reason, "the overlay of a detached disk stays");
}
