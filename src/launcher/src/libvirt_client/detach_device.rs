//! Asks the guest for a device.

use libvirt::{Affect, Domain};

/// What QEMU says about a device that the guest was asked for already.
const PENDING: &str = "already in the process of unplug";

/// Asks the guest for a device; it may take its time, or keep the device. The definition loses a device with the first
/// request, so that further requests are about the running domain only.
pub(crate) fn detach_device(domain: &dyn Domain, xml: &str) -> libvirt::Result<()> {
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
