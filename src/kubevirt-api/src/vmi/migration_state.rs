//! `status.migrationState`, in which virt-handler and virt-controller record the migration of a VMI.
//!
//! The names and the rules are those of KubeVirt v1.9's API (`VirtualMachineInstanceMigrationState`).

#[cfg(test)]
mod tests;

use serde::Deserialize;

use super::{ClaimInfo, null_as_default};

/// The migration of a VMI. Source and target receive the same value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MigrationState {
    /// UID of the VirtualMachineInstanceMigration. Use [`MigrationState::uid`] to identify the migration.
    #[serde(deserialize_with = "null_as_default")]
    pub migration_uid: String,
    /// Name of the target's pod.
    #[serde(deserialize_with = "null_as_default")]
    pub target_pod: String,
    /// Whether the migration has ended, successfully or not.
    #[serde(deserialize_with = "null_as_default")]
    pub completed: bool,
    /// Whether the migration has failed.
    #[serde(deserialize_with = "null_as_default")]
    pub failed: bool,
    /// The target pod's CPUs, for a VM with dedicated CPUs.
    #[serde(rename = "targetCPUSet", deserialize_with = "null_as_default")]
    pub target_cpu_set: Vec<u32>,
    /// JSON of the target node's topology ([`crate::virtual_machine_options::Topology`]), for a VM with dedicated CPUs.
    #[serde(deserialize_with = "null_as_default")]
    pub target_node_topology: String,
    /// Claim of the source's backend storage (TPM and EFI state).
    #[serde(
        rename = "sourcePersistentStatePVCName",
        deserialize_with = "null_as_default"
    )]
    pub source_persistent_state_claim: String,
    /// Claim of the target's backend storage.
    #[serde(
        rename = "targetPersistentStatePVCName",
        deserialize_with = "null_as_default"
    )]
    pub target_persistent_state_claim: String,
    /// The source, as its cluster describes it.
    pub source_state: Option<MigrationSide>,
    /// The target, as its cluster describes it.
    pub target_state: Option<MigrationSide>,
}

/// One side of a migration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MigrationSide {
    /// UID of the VirtualMachineInstanceMigration on this side.
    #[serde(rename = "migrationUID", deserialize_with = "null_as_default")]
    pub migration_uid: String,
    /// Name of the VMI.
    #[serde(deserialize_with = "null_as_default")]
    pub domain_name: String,
    /// Namespace of the VMI.
    #[serde(deserialize_with = "null_as_default")]
    pub domain_namespace: String,
    /// UID of the VMI.
    #[serde(
        rename = "virtualMachineInstanceUID",
        deserialize_with = "null_as_default"
    )]
    pub vmi_uid: String,
    /// The address at which this cluster synchronizes with the other one.
    pub sync_address: Option<String>,
}

/// A volume whose content is copied to another claim.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MigratedVolume {
    /// Volume name.
    #[serde(deserialize_with = "null_as_default")]
    pub volume_name: String,
    /// The claim to copy from.
    #[serde(rename = "sourcePVCInfo")]
    pub source: Option<ClaimInfo>,
    /// The claim to copy to.
    #[serde(rename = "destinationPVCInfo")]
    pub destination: Option<ClaimInfo>,
}

impl MigrationState {
    /// The UID of the migration on the source.
    pub fn uid(&self) -> &str {
        match &self.source_state {
            Some(source) => &source.migration_uid,
            None => &self.migration_uid,
        }
    }

    /// The UID by which the target's virt-handler knows the migration. In a decentralized migration, each side has a
    /// migration object of its own.
    pub fn uid_on_target(&self) -> &str {
        let target_uid = self
            .target_state
            .as_ref()
            .map(|target| target.migration_uid.as_str());
        let target_uid = target_uid.filter(|uid| self.is_decentralized() && !uid.is_empty());
        target_uid.unwrap_or_else(|| self.uid())
    }

    /// Whether source and target are different VMIs, maybe in different clusters. Then exactly one side has an address
    /// for synchronization.
    pub fn is_decentralized(&self) -> bool {
        match (&self.source_state, &self.target_state) {
            (Some(source), Some(target)) => {
                source.sync_address.is_some() != target.sync_address.is_some()
            }
            _ => false,
        }
    }

    /// UID of the source's VMI, which is part of the socket names of the migration. It is `vmi_uid`, this VMI's, unless
    /// the state names another.
    pub fn source_vmi_uid<'a>(&'a self, vmi_uid: &'a str) -> &'a str {
        let source = self.source_state.as_ref();
        source
            .map(|source| source.vmi_uid.as_str())
            .filter(|uid| !uid.is_empty())
            .unwrap_or(vmi_uid)
    }
}

impl MigrationSide {
    /// The name of the libvirt domain on this side, if name and namespace are known.
    pub fn domain(&self) -> Option<String> {
        let is_known = !self.domain_name.is_empty() && !self.domain_namespace.is_empty();
        is_known.then(|| format!("{}_{}", self.domain_namespace, self.domain_name))
    }
}
