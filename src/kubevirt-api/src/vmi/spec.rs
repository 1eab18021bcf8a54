//! The specification of a VMI.

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
    /// Go's name of the guest's architecture.
    #[serde(deserialize_with = "null_as_default")]
    pub architecture: String,
    /// The machine.
    #[serde(deserialize_with = "null_as_default")]
    pub domain: DomainSpec,
    /// Networks, by which interfaces are connected.
    #[serde(deserialize_with = "null_as_default")]
    pub networks: Vec<Network>,
    /// Volumes, which disks show.
    #[serde(deserialize_with = "null_as_default")]
    pub volumes: Vec<Volume>,
    /// Seconds a guest is given to shut down.
    pub termination_grace_period_seconds: Option<i64>,
    /// The guest's host name.
    #[serde(deserialize_with = "null_as_default")]
    pub hostname: String,
    /// The guest's subdomain.
    #[serde(deserialize_with = "null_as_default")]
    pub subdomain: String,
    /// `Running` or `Paused`.
    pub start_strategy: Option<String>,
    /// SSH keys and passwords put into the guest.
    #[serde(deserialize_with = "null_as_default")]
    pub access_credentials: Vec<Value>,
    /// Devices claimed from the cluster's dynamic resource allocation.
    #[serde(deserialize_with = "null_as_default")]
    pub resource_claims: Vec<ResourceClaim>,
}

/// The machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DomainSpec {
    /// Requests and limits of the pod.
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Resources,
    /// Processors.
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
    /// How many IO threads.
    pub io_threads: Option<IoThreads>,
    /// What a reboot of the guest does: `Reboot` or `Terminate`.
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
