//! The connection of a VM's interfaces with its pod's interfaces, and the guest's DHCP leases.
//!
//! virt-handler creates network devices in the pod before it starts the VM (KubeVirt's phase 1). This module derives
//! the domain's interfaces and the DHCP leases from these devices (phase 2):
//!
//! ```text
//!               guest ── tap0 ─┐
//!  masquerade                  ├─ k6t-eth0 (10.0.2.1) ── NAT ── eth0
//!               guest ── tap0 ─┐
//!  bridge                      ├─ k6t-eth0 (169.254.75.10) ── eth0-nic ──    eth0: a dummy with the address
//! ```
//!
//! The devices of a secondary network are called `tapHASH`, `k6t-HASH`, `HASH-nic` and `podHASH`, or are numbered
//! (`net1`).

mod dhcp_lease;
mod error;
mod link_names;
mod mac_address;
mod masquerade_subnet;
mod resolv_conf;
mod tap_device;
mod vif_cache;
mod vmi_dhcp_options;

pub use dhcp_lease::{Lease, Lease4, Route};
pub use error::PodNetworkError;
pub(crate) use link_names::hotplug_tap;
pub use mac_address::Mac;
pub use resolv_conf::{DnsConfig, MAX_RESOLV_CONF_BYTES};
pub(crate) use tap_device::has_tap;
pub use tap_device::{Binding, Link, Tap, taps};
pub use vif_cache::{MAX_VIF_CACHE_BYTES, VifCacheError};
pub use vmi_dhcp_options::DhcpOptions;
