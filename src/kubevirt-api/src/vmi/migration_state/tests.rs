//! UIDs and sides of plain and decentralized migrations.
use serde_json::{Value, json};

use super::*;
use crate::vmi::Vmi;

fn state(state: Value) -> MigrationState {
    serde_json::from_value(state).unwrap()
}

#[test]
fn uid_is_that_of_the_source_state_if_there_is_one() {
    let plain = state(json!({"migrationUid": "a"}));
    assert_eq!(plain.uid(), "a");
    let both = json!({"migrationUid": "a", "sourceState": {"migrationUID": "b"}});
    assert_eq!(state(both).uid(), "b");
    let empty = json!({"migrationUid": "a", "sourceState": {}});
    assert_eq!(
        state(empty).uid(),
        "",
        "KubeVirt's launcher reads it in the same way"
    );
}

#[test]
fn target_of_a_decentralized_migration_has_its_own_uid() {
    let state_with = |address: Value, target: &str| {
        state(json!({
            "sourceState": {"migrationUID": "b"},
            "targetState": {"migrationUID": target, "syncAddress": address},
        }))
    };
    assert_eq!(state_with(json!("10.0.0.1:9185"), "c").uid_on_target(), "c");
    assert_eq!(state_with(json!("10.0.0.1:9185"), "").uid_on_target(), "b");
    assert_eq!(state_with(Value::Null, "c").uid_on_target(), "b");
}

#[test]
fn decentralized_migration_has_exactly_one_sync_address() {
    let is_decentralized = |source: Value, target: Value| {
        state(json!({"sourceState": source, "targetState": target})).is_decentralized()
    };
    let address = || json!({"syncAddress": "10.0.0.1:9185"});
    assert!(is_decentralized(address(), json!({})));
    assert!(is_decentralized(json!({}), address()));
    assert!(!is_decentralized(json!({}), json!({})));
    assert!(!is_decentralized(address(), address()));
    assert!(!is_decentralized(address(), Value::Null));
    assert!(!state(json!({})).is_decentralized());
}

#[test]
fn sides_contain_domain_name_and_vmi_uid() {
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
fn status_contains_transport_and_method() {
    let vmi = |status: Value| {
        let vmi = json!({"metadata": {"name": "vm1", "namespace": "default"}, "status": status});
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
fn recorded_decentralized_state_is_parsed() {
    // As virt-handler sends it, without the migration configuration.
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
