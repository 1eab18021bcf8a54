//! Names of the links that virt-handler creates in the pod.

use kubevirt_api::vmi::{Network, Vmi};
use sha2::{Digest, Sha256};

/// The pod's interface of its default network.
const PRIMARY_INTERFACE: &str = "eth0";
/// The prefix of links that are named after their network's hash.
const HASH_PREFIX: &str = "pod";
/// The number of hash digits, so that a name with prefix `pod` or suffix `-nic` has at most 15 characters.
const HASH_LENGTH: usize = 11;

/// Possible names of the pod's interface of a network, the likely name first; empty if the pod does not have the
/// network.
pub(super) fn pod_interfaces(vmi: &Vmi, network: &Network) -> Vec<String> {
    if is_secondary(network) {
        let secondary = vmi.spec.networks.iter().filter(|other| is_secondary(other));
        let ordinal = secondary
            .take_while(|other| other.name != network.name)
            .count()
            + 1;
        return vec![hash_name(&network.name), format!("net{ordinal}")];
    }
    if network.pod.is_none() && network.multus.is_none() {
        return Vec::new();
    }
    let reported = (vmi.status.interfaces.iter())
        .find(|status| status.name == network.name)
        .map(|status| status.pod_interface_name.clone())
        .filter(|name| !name.is_empty() && name != PRIMARY_INTERFACE);
    reported
        .into_iter()
        .chain([PRIMARY_INTERFACE.to_owned()])
        .collect()
}

/// Whether Multus attaches the network in addition to the pod's default network.
pub(super) fn is_secondary(network: &Network) -> bool {
    let multus = network.multus.as_ref();
    multus.is_some_and(|multus| !multus.default)
}

/// The name of the pod's interface after its network's hash: `pod` and the start of the SHA-256.
fn hash_name(network: &str) -> String {
    let digest = Sha256::digest(network);
    let mut name: String = HASH_PREFIX.into();
    name.extend(digest.iter().map(|byte| format!("{byte:02x}")));
    name.truncate(HASH_PREFIX.len() + HASH_LENGTH);
    name
}

/// The tap device of a hotplugged interface, which is named after its network's hash. A network that the VMI does not
/// have is treated as the pod's default network.
pub(crate) fn hotplug_tap(vmi: &Vmi, interface: &str) -> String {
    let mut networks = vmi.spec.networks.iter();
    let network = networks.find(|network| network.name == interface);
    tap(&hash_name(interface), network.is_some_and(is_secondary))
}

/// The name of the tap device for an interface of the pod.
pub(super) fn tap(pod_interface: &str, is_secondary: bool) -> String {
    match pod_interface.get(HASH_PREFIX.len()..) {
        Some(rest) if is_secondary => format!("tap{rest}"),
        _ => "tap0".into(),
    }
}

/// The name of the bridge that connects the tap device with the pod's interface.
pub(super) fn bridge(pod_interface: &str) -> String {
    format!("k6t-{}", without_prefix(pod_interface))
}

/// The new name of the pod's interface with the bridge binding, in which a dummy link gets the old name.
pub(super) fn renamed(pod_interface: &str) -> String {
    format!("{}-nic", without_prefix(pod_interface))
}

fn without_prefix(pod_interface: &str) -> &str {
    pod_interface
        .strip_prefix(HASH_PREFIX)
        .unwrap_or(pod_interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_as_virt_handlers() {
        assert_eq!(hash_name("red"), "podb1f51a511f1");
        assert_eq!(hash_name("network1"), "poda7662f44d65");
        assert_eq!(
            (
                tap("podb1f51a511f1", true),
                bridge("podb1f51a511f1"),
                renamed("podb1f51a511f1")
            ),
            (
                "tapb1f51a511f1".into(),
                "k6t-b1f51a511f1".into(),
                "b1f51a511f1-nic".into()
            )
        );
        assert_eq!(
            (tap("net1", true), bridge("net1"), renamed("net1")),
            ("tap1".into(), "k6t-net1".into(), "net1-nic".into())
        );
        assert_eq!(
            (tap("eth0", false), bridge("eth0"), renamed("eth0")),
            ("tap0".into(), "k6t-eth0".into(), "eth0-nic".into())
        );
    }
}
