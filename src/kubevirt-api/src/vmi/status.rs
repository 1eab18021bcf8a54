//! `status`: the status of a VMI, as the cluster records it.

use serde::Deserialize;

use super::{ClaimInfo, MigratedVolume, MigrationState, Quantity, null_as_default};

/// The value of `status.migrationTransport` if QEMU migrates through UNIX sockets.
const TRANSPORT_UNIX: &str = "Unix";
/// The value of `status.migrationMethod` if local disks are copied.
const METHOD_BLOCK: &str = "BlockMigration";

/// The fields of the status that are read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    /// `Scheduled`, `Running` and so on.
    #[serde(deserialize_with = "null_as_default")]
    pub phase: String,
    /// User id that QEMU runs as.
    #[serde(deserialize_with = "null_as_default")]
    pub runtime_user: u64,
    /// The status of volumes.
    #[serde(deserialize_with = "null_as_default")]
    pub volume_status: Vec<VolumeStatus>,
    /// The guest's memory at boot.
    pub memory: Option<MemoryStatus>,
    /// The status of interfaces.
    #[serde(deserialize_with = "null_as_default")]
    pub interfaces: Vec<InterfaceStatus>,
    /// The last migration of this VMI.
    pub migration_state: Option<MigrationState>,
    /// `Unix`, or empty for migrations through loopback ports.
    #[serde(deserialize_with = "null_as_default")]
    pub migration_transport: String,
    /// `LiveMigration` or `BlockMigration`.
    #[serde(deserialize_with = "null_as_default")]
    pub migration_method: String,
    /// Volumes that are copied to other claims.
    #[serde(deserialize_with = "null_as_default")]
    pub migrated_volumes: Vec<MigratedVolume>,
    /// The conditions, whatever their status is.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    /// Hints about the node's topology: the TSC frequency.
    pub topology_hints: Option<TopologyHints>,
    /// Machine type and architecture.
    pub machine: Option<super::Machine>,
    /// Context id of virtual sockets.
    #[serde(rename = "VSOCKCID")]
    pub vsock_cid: Option<u32>,
    /// State of changed block tracking.
    pub changed_block_tracking: Option<ChangedBlockTracking>,
}

impl Status {
    /// Whether QEMU migrates through UNIX sockets, and not through ports of the pod's loopback interface.
    pub fn migrates_over_unix_sockets(&self) -> bool {
        self.migration_transport == TRANSPORT_UNIX
    }

    /// Whether disks are copied.
    pub fn is_block_migration(&self) -> bool {
        self.migration_method == METHOD_BLOCK || !self.migrated_volumes.is_empty()
    }
}

/// State of changed block tracking.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ChangedBlockTracking {
    /// `Initializing`, `Enabled` or a state in which changed blocks are not tracked.
    #[serde(deserialize_with = "null_as_default")]
    pub state: String,
}

impl ChangedBlockTracking {
    /// Whether changed blocks are tracked: overlays are created, or exist already.
    pub fn is_on(&self) -> bool {
        matches!(self.state.as_str(), "Initializing" | "Enabled")
    }
}

/// A condition, such as `Paused`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The condition's type.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
}

/// The status of a volume.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeStatus {
    /// Volume name.
    pub name: String,
    /// Target device, such as `vda`.
    #[serde(deserialize_with = "null_as_default")]
    pub target: String,
    /// Phase of attachment.
    #[serde(deserialize_with = "null_as_default")]
    pub phase: String,
    /// The claim behind the volume.
    pub persistent_volume_claim_info: Option<ClaimInfo>,
    /// Present for a hotplugged volume.
    pub hotplug_volume: Option<serde_json::Value>,
    /// Size in bytes of an emptyDisk or hostDisk.
    pub size: Option<i64>,
}

/// The volume mode of a block device.
pub const BLOCK: &str = "Block";

impl VolumeStatus {
    /// The volume mode of the claim behind the volume, if the cluster reports it.
    pub fn volume_mode(&self) -> Option<&str> {
        let claim = self.persistent_volume_claim_info.as_ref()?;
        claim.volume_mode.as_deref()
    }
}

/// The guest's memory.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryStatus {
    /// The memory at boot, before hotplug.
    pub guest_at_boot: Option<Quantity>,
}

/// The status of an interface.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InterfaceStatus {
    /// Network name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// MAC address.
    #[serde(deserialize_with = "null_as_default")]
    pub mac: String,
    /// Name of the pod's interface.
    #[serde(deserialize_with = "null_as_default")]
    pub pod_interface_name: String,
    /// The sources of the information, separated by `, `: `domain`, `guest-agent`, `multus-status`.
    #[serde(deserialize_with = "null_as_default")]
    pub info_source: String,
}

/// Hints about the node's topology.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologyHints {
    /// The TSC frequency in Hz.
    pub tsc_frequency: Option<i64>,
}

impl Status {
    /// Whether there is a condition of this type. Its status is ignored, as by KubeVirt's launcher.
    pub fn has_condition(&self, kind: &str) -> bool {
        self.conditions
            .iter()
            .any(|condition| condition.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Vmi;

    #[test]
    fn conditions_are_found_by_their_type() {
        let vmi = r#"{"metadata": {"name": "vm1", "namespace": "default"},
            "status": {"conditions": [{"type": "Paused", "status": "True"}]}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        assert!(vmi.status.has_condition("Paused") && !vmi.status.has_condition("Ready"));
    }
}
