//! `spec`: the specification of a VMI.

use serde::Deserialize;
use serde_json::Value;

use super::{
    Chassis, Clock, Cpu, Devices, Features, Firmware, LaunchSecurity, Machine, Memory, Network,
    ResourceClaim, Resources, Volume, null_as_default,
};

/// The specification.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The guest's architecture as Go names it.
    #[serde(deserialize_with = "null_as_default")]
    pub architecture: String,
    /// The virtual machine.
    #[serde(deserialize_with = "null_as_default")]
    pub domain: DomainSpec,
    /// Networks, to which interfaces are connected.
    #[serde(deserialize_with = "null_as_default")]
    pub networks: Vec<Network>,
    /// Volumes, which disks and file systems provide to the guest.
    #[serde(deserialize_with = "null_as_default")]
    pub volumes: Vec<Volume>,
    /// How long the guest may take to shut down, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// The guest's host name.
    #[serde(deserialize_with = "null_as_default")]
    pub hostname: String,
    /// The guest's subdomain.
    #[serde(deserialize_with = "null_as_default")]
    pub subdomain: String,
    /// `Running` or `Paused`.
    pub start_strategy: Option<String>,
    /// SSH keys and passwords to set in the guest.
    #[serde(deserialize_with = "null_as_default")]
    pub access_credentials: Vec<Value>,
    /// Claims of dynamic resource allocation (DRA) for devices.
    #[serde(deserialize_with = "null_as_default")]
    pub resource_claims: Vec<ResourceClaim>,
}

/// The virtual machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DomainSpec {
    /// Requests and limits of the pod.
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Resources,
    /// CPUs.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<Memory>,
    /// Machine type.
    pub machine: Option<Machine>,
    /// Firmware and SMBIOS.
    pub firmware: Option<Firmware>,
    /// Clock and timers.
    pub clock: Option<Clock>,
    /// Hypervisor features.
    pub features: Option<Features>,
    /// Devices.
    #[serde(deserialize_with = "null_as_default")]
    pub devices: Devices,
    /// `shared`, `auto` or `supplementalPool`.
    pub io_threads_policy: Option<String>,
    /// The size of the IO thread pool.
    pub io_threads: Option<IoThreads>,
    /// The effect of a reboot by the guest: `Reboot` or `Terminate`.
    pub reboot_policy: Option<String>,
    /// SMBIOS chassis data.
    pub chassis: Option<Chassis>,
    /// Confidential computing.
    pub launch_security: Option<LaunchSecurity>,
}

/// The size of the IO thread pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IoThreads {
    /// Threads in the supplemental pool.
    pub supplemental_pool_thread_count: Option<u32>,
}
