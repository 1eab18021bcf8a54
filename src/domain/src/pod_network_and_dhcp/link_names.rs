//! Names of the links that virt-handler creates in the pod.

use kubevirt_api::vmi::{Network, Vmi};
use sha2::{Digest, Sha256};

const PRIMARY: &str = "eth0";
/// Prefix of links that are named by their network's hash.
const HASH_PREFIX: &str = "pod";
/// Short enough for the prefix `pod` and the suffix `-nic` in the 15 characters of a link's name.
const HASH_LENGTH: usize = 11;

/// Possible names of the pod's interface of a network, the likely one first; empty if the network is not the pod's.
pub(super) fn pod_interfaces(vmi: &Vmi, network: &Network) -> Vec<String> {
    if is_secondary(network) {
        let others = vmi.spec.networks.iter().filter(|one| is_secondary(one));
        let ordinal = others.take_while(|one| one.name != network.name).count() + 1;
        return vec![hashed(&network.name), format!("net{ordinal}")];
    }
    if network.pod.is_none() && network.multus.is_none() {
        return Vec::new();
    }
    let reported = (vmi.status.interfaces.iter())
        .find(|status| status.name == network.name)
        .map(|status| status.pod_interface_name.clone())
        .filter(|name| !name.is_empty() && name != PRIMARY);
    reported.into_iter().chain([PRIMARY.to_owned()]).collect()
}

pub(super) fn is_secondary(network: &Network) -> bool {
    let multus = network.multus.as_ref();
    multus.is_some_and(|multus| !multus.default)
}

fn hashed(network: &str) -> String {
    let digest = Sha256::digest(network);
    let mut name: String = HASH_PREFIX.into();
    name.extend(digest.iter().map(|byte| format!("{byte:02x}")));
    name.truncate(HASH_PREFIX.len() + HASH_LENGTH);
    name
}

/// The tap device of an interface that was hotplugged: named by its network's hash. A network that the VMI does not have
/// counts as the pod's own.
pub(crate) fn hotplug_tap(vmi: &Vmi, interface: &str) -> String {
    let mut networks = vmi.spec.networks.iter();
    let network = networks.find(|network| network.name == interface);
    tap(&hashed(interface), network.is_some_and(is_secondary))
}

/// The tap device for an interface of the pod.
pub(super) fn tap(pod_interface: &str, secondary: bool) -> String {
    match pod_interface.get(HASH_PREFIX.len()..) {
        Some(rest) if secondary => format!("tap{rest}"),
        _ => "tap0".into(),
    }
}

/// The bridge that connects the tap device with the pod's interface.
pub(super) fn bridge(pod_interface: &str) -> String {
    format!("k6t-{}", without_prefix(pod_interface))
}

/// The new name of the pod's interface, once a dummy has its old name (bridge binding).
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
    fn names_are_those_of_virt_handler() {
        assert_eq!(hashed("red"), "podb1f51a511f1");
        assert_eq!(hashed("network1"), "poda7662f44d65");
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
