//! Requests the detachment of a device from the guest.

use libvirt::{Affect, Domain};

/// Part of QEMU's error for a device whose detachment was requested before.
const ALREADY_REQUESTED: &str = "already in the process of unplug";

/// Requests that the guest releases a device, without waiting: the guest may release it later, or never. The first
/// request removes the device from the persistent definition, so that later requests affect only the running domain.
pub(crate) fn request_detach(domain: &dyn Domain, xml: &str) -> libvirt::Result<()> {
    let result = match domain.detach_device(xml, Affect::LiveAndConfig) {
        Err(error) if error.is_device_missing() => domain.detach_device(xml, Affect::Live),
        result => result,
    };
    match result {
        // The device was released meanwhile, or the guest has not answered the earlier request yet.
        Err(error) if error.is_device_missing() || error.message.contains(ALREADY_REQUESTED) => {
            Ok(())
        }
        result => result,
    }
}
