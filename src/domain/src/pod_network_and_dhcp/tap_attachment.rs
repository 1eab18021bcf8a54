//! Whether the domain attaches to an interface of the pod through a tap device.

use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi;

const TAP_ATTACHMENT: &str = "tap";

/// Whether the domain gets a tap device. virt-handler sends the attachment of each interface; if it is missing, bridge
/// and masquerade use a tap.
pub(crate) fn is_tap(options: &Options, interface: &vmi::Interface) -> bool {
    match options.interface_domain_attachment.get(&interface.name) {
        Some(attachment) => attachment == TAP_ATTACHMENT,
        None => interface.bridge.is_some() || interface.masquerade.is_some(),
    }
}
