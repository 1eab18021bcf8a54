//! Networks and interfaces.

use serde::Deserialize;
use serde_json::Value;

use super::null_as_default;

/// A network.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Network {
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// The pod's own network.
    pub pod: Option<Value>,
    /// A network that Multus attaches.
    pub multus: Option<Value>,
    /// A network that a resource claim attaches.
    pub resource_claim: Option<super::ClaimRequest>,
}

/// An interface.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Interface {
    /// Name of the network it is connected to.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Device model; `virtio` when empty.
    #[serde(deserialize_with = "null_as_default")]
    pub model: String,
    /// Bridge binding.
    pub bridge: Option<Value>,
    /// Masquerade binding.
    pub masquerade: Option<Value>,
    /// SR-IOV binding.
    pub sriov: Option<Value>,
    /// Passt binding.
    pub passt_binding: Option<Value>,
    /// A binding plugin.
    pub binding: Option<Binding>,
    /// Ports shown outside.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<Port>,
    /// MAC address.
    #[serde(deserialize_with = "null_as_default")]
    pub mac_address: String,
    /// Place in the boot order.
    pub boot_order: Option<u64>,
    /// PCI address.
    #[serde(deserialize_with = "null_as_default")]
    pub pci_address: String,
    /// DHCP options.
    pub dhcp_options: Option<Value>,
    /// Tag in the guest's device metadata.
    #[serde(deserialize_with = "null_as_default")]
    pub tag: String,
    /// ACPI index.
    #[serde(deserialize_with = "null_as_default")]
    pub acpi_index: u64,
    /// `absent`, `up` or `down`.
    #[serde(deserialize_with = "null_as_default")]
    pub state: String,
}

/// A binding plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Binding {
    /// Its name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
}

/// A port.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Port {
    /// `TCP` or `UDP`; `TCP` when empty.
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: String,
    /// Number.
    #[serde(deserialize_with = "null_as_default")]
    pub port: u16,
}
