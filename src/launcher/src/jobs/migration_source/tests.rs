//! VMIs whose migration is refused, options that hooks change, and what counts as a host device.

use serde_json::{Value, json};

use super::*;

fn job(spec: Value, status: Value) -> Result<MigrationJob, String> {
    let vmi = json!({"metadata": {"name": "vm1", "namespace": "default"}, "spec": spec, "status": status});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let options = MigrationOptions::default();
    MigrationJob::new(vmi, options).map_err(|refusal| refusal.to_string())
}

#[test]
fn vmi_without_migration_state_or_with_a_running_backup_is_refused() {
    let state = json!({"migrationUid": "m"});
    assert!(
        job(json!({}), json!({}))
            .unwrap_err()
            .contains("migrationState")
    );
    let ready = job(json!({}), json!({"migrationState": state}));
    assert_eq!(ready.unwrap().uid(), "m");
    let backup = json!({"state": "Enabled", "backupStatus": {"backupName": "b1"}});
    let backed_up = job(
        json!({}),
        json!({"migrationState": state, "changedBlockTracking": backup}),
    );
    assert!(backed_up.unwrap_err().contains("backup b1"));
}

#[test]
fn only_parameters_that_hooks_changed_change_options() {
    let state = json!({"migrationState": {"migrationUid": "m"}});
    let vmi = json!({"metadata": {"name": "vm1", "namespace": "default"}, "status": state});
    let options = json!({"Bandwidth": "1500k", "MaxDowntimeMs": 700, "ParallelMigrationThreads": 8,
        "CompletionTimeoutPerGiB": -1, "Compression": "zstd"});
    let options = MigrationOptions::from_json(options.to_string().as_bytes()).unwrap();
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let job = MigrationJob::new(vmi, options).unwrap();
    let before = job.parameters();
    assert_eq!(
        (before.bandwidth, before.parallel_connections),
        (1_500_000, 8)
    );
    let same = job.clone().with_parameters(&before);
    assert_eq!(
        same.options(),
        job.options(),
        "a negative timeout stays as it is"
    );
    assert_eq!(same.hooked_downtime(), None);
    let fewer = MigrationParameters {
        parallel_connections: 4,
        ..before
    };
    let fewer = job.clone().with_parameters(&fewer);
    assert_eq!(fewer.options().compression.as_deref(), Some("zstd"));
    assert!(!fewer.options().allow_workload_disruption);
    let after = MigrationParameters {
        bandwidth: 64 << 20,
        parallel_connections: 0,
        allow_post_copy: true,
        max_downtime: 50,
        ..before
    };
    let changed = job.with_parameters(&after);
    let options = changed.options();
    assert_eq!(options.mib_per_second().unwrap(), Some(64));
    assert_eq!(options.parallel_migration_threads, None);
    assert!(options.allow_post_copy && !options.allow_auto_converge);
    assert!(
        options.allow_workload_disruption,
        "post-copy does not begin without it"
    );
    assert_eq!(options.max_downtime_ms, 50);
    assert_eq!(
        options.compression, None,
        "libvirt compresses only parallel connections"
    );
    assert_eq!(changed.hooked_downtime(), Some(50));
    let forbidden = MigrationParameters {
        allow_post_copy: false,
        ..after
    };
    let forbidden = changed.with_parameters(&forbidden);
    assert!(!forbidden.options().allow_workload_disruption);
}

#[test]
fn sriov_interfaces_gpus_and_host_devices_count_as_host_devices() {
    let has = |devices: Value| {
        let state = json!({"migrationState": {"migrationUid": "m"}});
        let spec = json!({"domain": {"devices": devices}});
        job(spec, state).unwrap().has_host_devices()
    };
    assert!(!has(
        json!({"interfaces": [{"name": "a", "masquerade": {}}]})
    ));
    assert!(has(json!({"interfaces": [{"name": "a", "sriov": {}}]})));
    assert!(has(json!({"gpus": [{"name": "g", "deviceName": "d"}]})));
    assert!(has(
        json!({"hostDevices": [{"name": "h", "deviceName": "d"}]})
    ));
}
