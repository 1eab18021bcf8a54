//! The migration of a VMI, as virt-handler and virt-controller record it in `status.migrationState`.
//!
//! The names and the rules are those of KubeVirt v1.9's API (`VirtualMachineInstanceMigrationState`).

use serde::Deserialize;

use super::{ClaimInfo, null_as_default};

/// `status.migrationTransport` when QEMU's migration runs through UNIX sockets.
const TRANSPORT_UNIX: &str = "Unix";
/// `status.migrationMethod` when local disks are copied.
const METHOD_BLOCK: &str = "BlockMigration";

/// The migration of a VMI. Source and target receive the same value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MigrationState {
    /// UID of the VirtualMachineInstanceMigration; [`MigrationState::uid`] is the one to compare with.
    #[serde(deserialize_with = "null_as_default")]
    pub migration_uid: String,
    /// Name of the target's pod.
    #[serde(deserialize_with = "null_as_default")]
    pub target_pod: String,
    /// The migration has ended, well or not.
    #[serde(deserialize_with = "null_as_default")]
    pub completed: bool,
    /// The migration has failed.
    #[serde(deserialize_with = "null_as_default")]
    pub failed: bool,
    /// The target's processors, for a VM with dedicated ones.
    #[serde(rename = "targetCPUSet", deserialize_with = "null_as_default")]
    pub target_cpu_set: Vec<u32>,
    /// JSON of the target node's topology, for a VM with dedicated processors: see [`crate::virtual_machine_options::Topology`].
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
    /// The source as its cluster sees it.
    pub source_state: Option<MigrationSide>,
    /// The target as its cluster sees it.
    pub target_state: Option<MigrationSide>,
}

/// One side of a migration.
#[derive(Debug, Clone, Default, Deserialize)]
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
    /// Where the other cluster synchronizes with this one.
    pub sync_address: Option<String>,
}

/// A volume whose content is copied to another claim.
#[derive(Debug, Clone, Default, Deserialize)]
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
    /// The UID by which the source knows the migration: the source's.
    pub fn uid(&self) -> &str {
        match &self.source_state {
            Some(source) => &source.migration_uid,
            None => &self.migration_uid,
        }
    }

    /// The UID by which the target's virt-handler knows the migration. Between two VMIs, each side has a migration object of
    /// its own.
    pub fn uid_on_target(&self) -> &str {
        let own = self
            .target_state
            .as_ref()
            .map(|own| own.migration_uid.as_str());
        let own = own.filter(|uid| self.is_decentralized() && !uid.is_empty());
        own.unwrap_or_else(|| self.uid())
    }

    /// Whether source and target are different VMIs, maybe of different clusters: exactly one has an address to
    /// synchronize with.
    pub fn is_decentralized(&self) -> bool {
        match (&self.source_state, &self.target_state) {
            (Some(source), Some(target)) => {
                source.sync_address.is_some() != target.sync_address.is_some()
            }
            _ => false,
        }
    }

    /// UID of the source's VMI, which names the sockets of the migration.
    pub fn source_vmi_uid<'a>(&'a self, own: &'a str) -> &'a str {
        let source = self.source_state.as_ref();
        source
            .map(|source| source.vmi_uid.as_str())
            .filter(|uid| !uid.is_empty())
            .unwrap_or(own)
    }
}

impl MigrationSide {
    /// The libvirt domain's name on this side, if name and namespace are known.
    pub fn domain(&self) -> Option<String> {
        let known = !self.domain_name.is_empty() && !self.domain_namespace.is_empty();
        known.then(|| format!("{}_{}", self.domain_namespace, self.domain_name))
    }
}

impl super::Status {
    /// QEMU's migration runs through UNIX sockets, not through the pod's loopback interface.
    pub fn migrates_over_unix_sockets(&self) -> bool {
        self.migration_transport == TRANSPORT_UNIX
    }

    /// Disks are copied too.
    pub fn is_block_migration(&self) -> bool {
        self.migration_method == METHOD_BLOCK || !self.migrated_volumes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::super::Vmi;
    use super::*;

    fn state(state: Value) -> MigrationState {
        serde_json::from_value(state).unwrap()
    }

    #[test]
    fn uid_is_the_sources_if_there_is_a_source_state() {
        let plain = state(json!({"migrationUid": "a"}));
        assert_eq!(plain.uid(), "a");
        let both = json!({"migrationUid": "a", "sourceState": {"migrationUID": "b"}});
        assert_eq!(state(both).uid(), "b");
        let empty = json!({"migrationUid": "a", "sourceState": {}});
        assert_eq!(state(empty).uid(), "", "as KubeVirt's launcher reads it");
    }

    #[test]
    fn target_of_another_vmi_has_a_migration_of_its_own() {
        let with = |address: Value, target: &str| {
            state(json!({
                "sourceState": {"migrationUID": "b"},
                "targetState": {"migrationUID": target, "syncAddress": address},
            }))
        };
        assert_eq!(with(json!("10.0.0.1:9185"), "c").uid_on_target(), "c");
        assert_eq!(with(json!("10.0.0.1:9185"), "").uid_on_target(), "b");
        assert_eq!(with(Value::Null, "c").uid_on_target(), "b");
    }

    #[test]
    fn decentralized_migration_has_one_sync_address() {
        let with = |source: Value, target: Value| {
            state(json!({"sourceState": source, "targetState": target})).is_decentralized()
        };
        let address = || json!({"syncAddress": "10.0.0.1:9185"});
        assert!(with(address(), json!({})));
        assert!(with(json!({}), address()));
        assert!(!with(json!({}), json!({})));
        assert!(!with(address(), address()));
        assert!(!with(address(), Value::Null));
        assert!(!state(json!({})).is_decentralized());
    }

    #[test]
    fn sides_name_domains_and_sockets() {
        let state = state(json!({
            "sourceState": {"virtualMachineInstanceUID": "1234"},
            "targetState": {"domainName": "vm1", "domainNamespace": "other", "virtualMachineInstanceUID": "5678"},
        }));
        let (source, target) = (state.source_state.as_ref(), state.target_state.as_ref());
        assert_eq!(source.unwrap().domain(), None);
        assert_eq!(target.unwrap().domain().as_deref(), Some("other_vm1"));
        assert_eq!(state.source_vmi_uid("5678"), "1234");
        assert_eq!(MigrationState::default().source_vmi_uid("5678"), "5678");
    }

    #[test]
    fn status_tells_transport_method_and_conditions() {
        let vmi = |status: Value| {
            let vmi =
                json!({"metadata": {"name": "vm1", "namespace": "default"}, "status": status});
            Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
        };
        let plain = vmi(json!({"migrationState": {"targetCPUSet": [2, 3], "endTimestamp": null}}));
        assert!(!plain.status.migrates_over_unix_sockets() && !plain.status.is_block_migration());
        let state = plain.status.migration_state.unwrap();
        assert_eq!(state.target_cpu_set, [2, 3]);
        let volumes = vmi(json!({
            "migrationTransport": "Unix",
            "migrationMethod": "LiveMigration",
            "migratedVolumes": [{"volumeName": "data", "sourcePVCInfo": {"claimName": "a", "volumeMode": "Filesystem"}}],
        }));
        assert!(volumes.status.migrates_over_unix_sockets());
        assert!(volumes.status.is_block_migration());
        let block = vmi(json!({"migrationMethod": "BlockMigration"}));
        assert!(block.status.is_block_migration());
    }

    #[test]
    fn recorded_decentralized_state_is_read() {
        // As virt-handler sends it, the configuration left out.
        let state = state(json!({
            "migrationUid": "mig-dst",
            "sourceNode": "node01",
            "sourceState": {
                "node": "node01", "pod": "virt-launcher-vm1-src", "migrationUID": "mig-src", "domainName": "vm1",
                "domainNamespace": "default", "virtualMachineInstanceUID": "1234", "syncAddress": "10.0.0.1:9185"
            },
            "targetState": {
                "node": "node02", "pod": "virt-launcher-vm1-dst", "migrationUID": "mig-dst", "domainName": "vm1",
                "domainNamespace": "other", "virtualMachineInstanceUID": "5678"
            }
        }));
        assert!(state.is_decentralized());
        assert_eq!(state.uid(), "mig-src");
    }
}
