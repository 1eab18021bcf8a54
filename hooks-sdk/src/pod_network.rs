//! One entry of Multus' `network-status`: a network of the pod.

use serde_json::Value;

/// A network of the pod: an entry of Multus' annotation `k8s.v1.cni.cncf.io/network-status`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodNetwork {
    /// `NAMESPACE/NAME` of the NetworkAttachmentDefinition; for the default network, the name that the cluster gave it.
    pub name: String,
    /// The name of the interface in the pod; may be empty.
    pub pod_interface: String,
    /// Its addresses, without prefix lengths.
    pub ips: Vec<String>,
    /// Its MAC address; may be empty.
    pub mac: String,
    /// Whether it is the pod's default network.
    pub is_default: bool,
    /// The whole entry as JSON, with `dns` and what else Multus writes.
    pub json: String,
}

impl PodNetwork {
    /// The addresses of its gateways.
    pub fn gateways(&self) -> Vec<String> {
        let entry = self.parsed();
        let list = entry.get("gateway").and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    /// Its MTU in bytes, if the status has it.
    pub fn mtu(&self) -> Option<u32> {
        let mtu = self.parsed().get("mtu")?.as_u64()?;
        u32::try_from(mtu).ok()
    }

    /// Its member `device-info` as JSON, if the status has it.
    pub fn device_info(&self) -> Option<String> {
        self.parsed().get("device-info").map(Value::to_string)
    }

    fn parsed(&self) -> Value {
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}
