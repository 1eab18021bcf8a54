//! How a VM's interfaces meet those of its pod, and what the guest is told by DHCP.
//!
//! virt-handler lays devices out in the pod before it asks for the VM (KubeVirt's phase 1); what
//! follows from them for the domain and for DHCP (phase 2) is decided here:
//!
//! ```text
//!               guest ── tap0 ─┐
//!  masquerade                  ├─ k6t-eth0 (10.0.2.1) ── NAT ── eth0
//!               guest ── tap0 ─┐
//!  bridge                      ├─ k6t-eth0 (169.254.75.10) ── eth0-nic ──    eth0: a dummy with the address
//! ```
//!
//! A secondary network `n` has `tapHASH`, `k6t-HASH`, `HASH-nic` and `podHASH`, or is numbered (`net1`).

mod cache;
mod dhcp_options;
mod lease;
mod mac;
mod names;
mod resolv_conf;
mod subnet;
mod tap;

pub use cache::{CacheError, MAX_CACHE_BYTES};
pub use dhcp_options::DhcpOptions;
pub use lease::{Lease, Lease4, Route};
pub use mac::Mac;
pub use resolv_conf::{Dns, MAX_RESOLV_CONF_BYTES};
pub use tap::{Binding, Link, Tap, taps};

use crate::options::Options;
use crate::vmi;

const TAP: &str = "tap";

/// Why an interface cannot be connected as the VMI asks.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PodNetworkError {
    /// The interface's network is none that a pod has.
    #[error(
        "interface {interface}: could not find the pod interface of network {interface}: it is neither the pod's \
         network nor one of Multus"
    )]
    NoPodNetwork {
        /// The interface, called as its network.
        interface: String,
    },
    /// A field says what cannot be had.
    #[error("interface {interface}: {field} is {value:?}; it can be {allowed}")]
    Field {
        /// The interface.
        interface: String,
        /// Path of the field, from the interface or the network on.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it could say.
        allowed: &'static str,
    },
    /// Nobody says which address the guest's interface has.
    #[error(
        "interface {interface}: {link}, its link in the pod, has no Ethernet address; macAddress can say one"
    )]
    NoMac {
        /// The interface.
        interface: String,
        /// The link in the pod.
        link: String,
    },
}

/// Whether the domain gets a tap device: virt-handler says how each interface is attached, and bridge
/// and masquerade have always meant a tap.
pub(crate) fn is_tap(options: &Options, interface: &vmi::Interface) -> bool {
    match options.interface_domain_attachment.get(&interface.name) {
        Some(attachment) => attachment == TAP,
        None => interface.bridge.is_some() || interface.masquerade.is_some(),
    }
}
