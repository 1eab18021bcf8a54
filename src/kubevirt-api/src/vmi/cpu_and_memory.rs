//! `cpu`, `memory` and `resources` of `spec.domain`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Quantity, null_as_default};

/// Requests and limits of the pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// Requests.
    #[serde(deserialize_with = "null_as_default")]
    pub requests: BTreeMap<String, Quantity>,
    /// Limits.
    #[serde(deserialize_with = "null_as_default")]
    pub limits: BTreeMap<String, Quantity>,
}

/// The vCPUs: topology, model and placement.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cpu {
    /// Cores per socket.
    #[serde(deserialize_with = "null_as_default")]
    pub cores: u32,
    /// Sockets.
    #[serde(deserialize_with = "null_as_default")]
    pub sockets: u32,
    /// The maximum number of sockets with CPU hotplug.
    #[serde(deserialize_with = "null_as_default")]
    pub max_sockets: u32,
    /// Threads per core.
    #[serde(deserialize_with = "null_as_default")]
    pub threads: u32,
    /// A model name of libvirt, `host-model` or `host-passthrough`.
    #[serde(deserialize_with = "null_as_default")]
    pub model: String,
    /// Required, disabled or otherwise configured CPU features.
    #[serde(deserialize_with = "null_as_default")]
    pub features: Vec<CpuFeature>,
    /// Each vCPU gets a host CPU of its own.
    #[serde(deserialize_with = "null_as_default")]
    pub dedicated_cpu_placement: bool,
    /// The emulator thread gets one more host CPU of its own.
    #[serde(deserialize_with = "null_as_default")]
    pub isolate_emulator_thread: bool,
    /// Guest NUMA.
    pub numa: Option<Numa>,
    /// Realtime scheduling.
    pub realtime: Option<Realtime>,
}

/// A CPU feature.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CpuFeature {
    /// Name.
    pub name: String,
    /// libvirt's policy; `require` when empty.
    #[serde(deserialize_with = "null_as_default")]
    pub policy: String,
}

/// Guest NUMA.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Numa {
    /// Set if the guest gets the node's NUMA topology.
    pub guest_mapping_passthrough: Option<serde_json::Value>,
}

/// Realtime scheduling.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Realtime {
    /// The vCPUs with realtime scheduling, such as `0-3,^1`.
    #[serde(deserialize_with = "null_as_default")]
    pub mask: String,
}

/// Memory.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Memory {
    /// Memory from huge pages.
    pub hugepages: Option<Hugepages>,
    /// The memory that the guest sees.
    pub guest: Option<Quantity>,
    /// The maximum memory with memory hotplug.
    pub max_guest: Option<Quantity>,
}

/// Memory from huge pages.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hugepages {
    /// Size of one page.
    #[serde(deserialize_with = "null_as_default")]
    pub page_size: String,
}
