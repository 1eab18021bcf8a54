//! How the domain attaches to an interface of the pod.

use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi;

const TAP: &str = "tap";

/// Whether the domain gets a tap device. virt-handler names the attachment of each interface; without a name, bridge
/// and masquerade use a tap.
pub(crate) fn is_tap(options: &Options, interface: &vmi::Interface) -> bool {
    match options.interface_domain_attachment.get(&interface.name) {
        Some(attachment) => attachment == TAP,
        None => interface.bridge.is_some() || interface.masquerade.is_some(),
    }
}
