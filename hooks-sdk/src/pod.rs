//! Facts about the pod in which the virtual machine runs: annotations, labels, networks.
//!
//! A hook declares what it reads with [`Description::with_pod_facts`](crate::Description::with_pod_facts), and the operator's
//! policy allows it (`allow.pod`). The functions wait for a fact that is not there yet, some seconds at most: Multus,
//! for example, writes its annotation while the pod starts. Those with `_if_set` do not wait.
//!
//! ```
//! # use hooks_sdk::{Result, host, pod};
//! # fn main() -> Result {
//! # let status = r#"[{"name": "infra/lab", "ips": ["192.0.2.10"], "mac": "02:00:00:00:00:01"}]"#;
//! # host::native::set_network_status(status);
//! let lab = pod::networks("infra/lab")?;
//! assert_eq!(lab[0].ips, ["192.0.2.10"]);
//! assert_eq!(pod::label_if_set("rack")?, None);
//! # Ok(())
//! # }
//! ```
//!
//! In native unit tests, [`host::native`](crate::host::native) has the facts.

#[cfg(not(target_family = "wasm"))]
use crate::host::native as imports;
pub use crate::pod_fact_error::FactError;
pub use crate::pod_network::PodNetwork;

/// The value of an annotation of the pod.
///
/// # Errors
/// If the fact is denied, unreadable, or not there after some seconds.
pub fn annotation(key: &str) -> Result<String, FactError> {
    present(imports::annotation(key, true)?, key)
}

/// The value of an annotation of the pod, if it is there now.
///
/// # Errors
/// If the fact is denied or unreadable.
pub fn annotation_if_set(key: &str) -> Result<Option<String>, FactError> {
    imports::annotation(key, false)
}

/// The value of a label of the pod.
///
/// # Errors
/// If the fact is denied, unreadable, or not there after some seconds.
pub fn label(key: &str) -> Result<String, FactError> {
    present(imports::label(key, true)?, key)
}

/// The value of a label of the pod, if it is there now.
///
/// # Errors
/// If the fact is denied or unreadable.
pub fn label_if_set(key: &str) -> Result<Option<String>, FactError> {
    imports::label(key, false)
}

/// The networks with this name: `NAMESPACE/NAME` of a NetworkAttachmentDefinition, without NAMESPACE that of the
/// virtual machine. There is at least one; a definition that is attached twice has two.
///
/// # Errors
/// If the fact is denied, unreadable, or not there after some seconds.
pub fn networks(name: &str) -> Result<Vec<PodNetwork>, FactError> {
    imports::network_status(name, true)
}

/// The networks with this name that are there now.
///
/// # Errors
/// If the fact is denied or unreadable.
pub fn networks_if_set(name: &str) -> Result<Vec<PodNetwork>, FactError> {
    imports::network_status(name, false)
}

/// The pod's default network.
///
/// # Errors
/// If the fact is denied, unreadable, or not there after some seconds.
pub fn default_network() -> Result<PodNetwork, FactError> {
    present(imports::default_network(true)?, "default-network")
}

/// The pod's default network, if it is there now.
///
/// # Errors
/// If the fact is denied or unreadable.
pub fn default_network_if_set() -> Result<Option<PodNetwork>, FactError> {
    imports::default_network(false)
}

/// KubeVirt's annotation `kubevirt.io/network-info`: devices, MAC addresses and MTU of the networks with a binding that
/// asks for it, by the names of the VMI; JSON.
///
/// # Errors
/// If the fact is denied, unreadable, or not there after some seconds.
pub fn network_info() -> Result<String, FactError> {
    present(imports::network_info(true)?, "network-info")
}

/// The annotation of [`network_info`], if it is there now.
///
/// # Errors
/// If the fact is denied or unreadable.
pub fn network_info_if_set() -> Result<Option<String>, FactError> {
    imports::network_info(false)
}

/// The fact. A host that waits returns the fact or an error, so that it is never missing.
fn present<T>(fact: Option<T>, name: &str) -> Result<T, FactError> {
    fact.ok_or_else(|| FactError::Absent(format!("{name} is not there")))
}

#[cfg(target_family = "wasm")]
mod imports {
    use super::{FactError, PodNetwork};
    use crate::bindings::virt_hook::hooks0_1_1::pod;

    pub(super) fn annotation(key: &str, wait: bool) -> Result<Option<String>, FactError> {
        pod::annotation(key, wait).map_err(error)
    }

    pub(super) fn label(key: &str, wait: bool) -> Result<Option<String>, FactError> {
        pod::label(key, wait).map_err(error)
    }

    pub(super) fn network_status(name: &str, wait: bool) -> Result<Vec<PodNetwork>, FactError> {
        let networks = pod::network_status(name, wait).map_err(error)?;
        Ok(networks.into_iter().map(network).collect())
    }

    pub(super) fn default_network(wait: bool) -> Result<Option<PodNetwork>, FactError> {
        Ok(pod::default_network(wait).map_err(error)?.map(network))
    }

    pub(super) fn network_info(wait: bool) -> Result<Option<String>, FactError> {
        pod::network_info(wait).map_err(error)
    }

    fn network(network: pod::Network) -> PodNetwork {
        PodNetwork {
            name: network.name,
            pod_interface: network.pod_interface,
            ips: network.ips,
            mac: network.mac,
            is_default: network.is_default,
            json: network.json,
        }
    }

    fn error(error: pod::Error) -> FactError {
        match error {
            pod::Error::Denied(text) => FactError::Denied(text),
            pod::Error::Absent(text) => FactError::Absent(text),
            pod::Error::Unreadable(text) => FactError::Unreadable(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::native;

    #[test]
    fn a_native_test_plays_the_pod() {
        let absent = annotation("a").unwrap_err();
        assert_eq!(absent.to_string(), "annotations/a is not there");
        native::set_pod_annotation("a", "1");
        native::set_pod_label("b", "2");
        assert_eq!(annotation("a").unwrap(), "1");
        assert_eq!(label("b").unwrap(), "2");
        assert_eq!(annotation_if_set("b").unwrap(), None);
        assert_eq!(label_if_set("a").unwrap(), None);
    }

    #[test]
    fn networks_are_found_by_name_and_in_the_virtual_machines_namespace() {
        let status = r#"[{"name": "cbr0", "interface": "eth0", "default": true, "ips": ["10.0.0.7"]},
            {"name": "infra/lab", "mac": "02:00:00:00:00:01", "mtu": 9000,
             "gateway": ["192.0.2.1"], "device-info": {"type": "pci"}}]"#;
        native::set_network_status(status);
        native::set_invocation("namespace", "infra");
        assert_eq!(default_network().unwrap().ips, ["10.0.0.7"]);
        for name in ["lab", "infra/lab"] {
            let found = networks(name).unwrap();
            assert_eq!(found[0].mac, "02:00:00:00:00:01");
            assert_eq!(found[0].mtu(), Some(9000));
            assert_eq!(found[0].gateways(), ["192.0.2.1"]);
            assert_eq!(found[0].device_info().as_deref(), Some(r#"{"type":"pci"}"#));
        }
        assert_eq!(networks_if_set("else/lab").unwrap(), []);
        assert!(matches!(networks("else/lab"), Err(FactError::Absent(_))));
    }

    #[test]
    fn network_info_is_an_annotation() {
        assert!(matches!(network_info(), Err(FactError::Absent(_))));
        assert_eq!(network_info_if_set().unwrap(), None);
        assert_eq!(default_network_if_set().unwrap(), None);
        native::set_pod_annotation("kubevirt.io/network-info", "{}");
        assert_eq!(network_info().unwrap(), "{}");
    }
}
