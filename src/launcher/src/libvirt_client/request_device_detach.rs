//! Requests that the guest releases a device.

use libvirt::{Affect, Domain};

/// What QEMU says about a device that the guest was asked for already.
const PENDING: &str = "already in the process of unplug";

/// Requests that the guest releases a device, and does not wait: the guest may do so later, or never. The definition
/// loses a device with the first request, so that further requests are about the running domain only.
pub(crate) fn request_detach(domain: &dyn Domain, xml: &str) -> libvirt::Result<()> {
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
