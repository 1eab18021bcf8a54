//! Networks (`spec.networks`) and interfaces (`spec.domain.devices.interfaces`).

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
    /// The pod's default network.
    pub pod: Option<PodNetwork>,
    /// A network that Multus attaches.
    pub multus: Option<MultusNetwork>,
    /// A network that a resource claim provides.
    pub resource_claim: Option<super::ClaimRequest>,
}

/// The pod's default network, with the subnets of a guest behind masquerade.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodNetwork {
    /// The guest's IPv4 subnet; `10.0.2.0/24` if empty.
    #[serde(rename = "vmNetworkCIDR", deserialize_with = "null_as_default")]
    pub vm_network_cidr: String,
    /// The guest's IPv6 subnet; `fd10:0:2::/120` if empty.
    #[serde(rename = "vmIPv6NetworkCIDR", deserialize_with = "null_as_default")]
    pub vm_ipv6_network_cidr: String,
}

/// A network that Multus attaches.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct MultusNetwork {
    /// Whether this network replaces the pod's default network.
    #[serde(deserialize_with = "null_as_default")]
    pub default: bool,
}

/// An interface.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Interface {
    /// The name of the interface and of its network.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Device model; `virtio` if empty.
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
    /// Ports that the binding forwards to the guest; all if empty.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<Port>,
    /// MAC address.
    #[serde(deserialize_with = "null_as_default")]
    pub mac_address: String,
    /// Position in the boot order, from 1.
    pub boot_order: Option<u64>,
    /// PCI address.
    #[serde(deserialize_with = "null_as_default")]
    pub pci_address: String,
    /// DHCP options.
    pub dhcp_options: Option<DhcpOptions>,
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

/// Additional DHCP options.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DhcpOptions {
    /// Boot file name.
    #[serde(deserialize_with = "null_as_default")]
    pub boot_file_name: String,
    /// TFTP server name.
    #[serde(deserialize_with = "null_as_default")]
    pub tftp_server_name: String,
    /// IPv4 addresses of NTP servers.
    #[serde(deserialize_with = "null_as_default")]
    pub ntp_servers: Vec<String>,
    /// Options with codes for private use.
    #[serde(deserialize_with = "null_as_default")]
    pub private_options: Vec<DhcpPrivateOption>,
}

/// A DHCP option with a code for private use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DhcpPrivateOption {
    /// The option's code, 224 to 254.
    #[serde(deserialize_with = "null_as_default")]
    pub option: u64,
    /// The value.
    #[serde(deserialize_with = "null_as_default")]
    pub value: String,
}

/// A binding plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Binding {
    /// The plugin's name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
}

/// A port.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Port {
    /// `TCP` or `UDP`; `TCP` if empty.
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: String,
    /// Number.
    #[serde(deserialize_with = "null_as_default")]
    pub port: u16,
}
