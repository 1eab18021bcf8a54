//! A request to migrate.

use hook_host::{MigrationParameter, MigrationParameters};
use kubevirt_api::migration_options::MigrationOptions;
use kubevirt_api::vmi::{MigrationState, Vmi};
use quantity::Quantity;

const BACKUP: &str = "/status/changedBlockTracking/backupStatus";

/// A migration to be made.
#[derive(Debug, Clone)]
pub struct MigrationJob {
    vmi: Vmi,
    options: MigrationOptions,
    uid: String,
    /// The longest downtime, if a hook has set it.
    hooked_downtime: Option<u64>,
}

/// Why a VMI is not migrated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationRefusal {
    /// The VMI has no migration UID of virt-controller yet.
    #[error("cannot migrate VMI until migrationState is ready")]
    NotReady,
    /// The VM is being backed up.
    #[error("cannot migrate VMI until backup {0} is completed")]
    Backup(String),
}

impl MigrationJob {
    /// The migration that the VMI's status describes.
    ///
    /// # Errors
    /// [`MigrationRefusal`].
    pub fn new(vmi: Vmi, options: MigrationOptions) -> Result<MigrationJob, MigrationRefusal> {
        if let Some(backup) = vmi
            .value()
            .pointer(BACKUP)
            .filter(|backup| !backup.is_null())
        {
            let name = backup["backupName"].as_str().unwrap_or_default();
            return Err(MigrationRefusal::Backup(name.to_owned()));
        }
        let uid = vmi.status.migration_state.as_ref().map(MigrationState::uid);
        let uid = uid.ok_or(MigrationRefusal::NotReady)?.to_owned();
        Ok(MigrationJob {
            vmi,
            options,
            uid,
            hooked_downtime: None,
        })
    }

    /// The UID by which both sides know the migration.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The VMI.
    pub fn vmi(&self) -> &Vmi {
        &self.vmi
    }

    /// How to migrate.
    pub(super) fn options(&self) -> &MigrationOptions {
        &self.options
    }

    /// The longest downtime in milliseconds, if a hook has set it.
    pub(super) fn hooked_downtime(&self) -> Option<u64> {
        self.hooked_downtime
    }

    /// What hooks may change of the options.
    pub(super) fn parameters(&self) -> MigrationParameters {
        let options = &self.options;
        MigrationParameters {
            bandwidth: options.bandwidth.memory_bytes().unwrap_or_default(),
            parallel_connections: options.parallel_migration_threads.map_or(0, u64::from),
            allow_post_copy: options.allow_post_copy,
            allow_auto_converge: options.allow_auto_converge,
            completion_timeout: options.completion_timeout_per_gib.try_into().unwrap_or(0),
            max_downtime: options.max_downtime_ms,
        }
    }

    /// The migration with the parameters that hooks changed; options that do not follow from these stay as they are.
    pub(super) fn with_parameters(mut self, after: &MigrationParameters) -> MigrationJob {
        let before = self.parameters();
        let options = &mut self.options;
        for (parameter, ..) in before.differences(after) {
            match parameter {
                MigrationParameter::Bandwidth => {
                    options.bandwidth =
                        Quantity::from_units(i64::try_from(after.bandwidth).unwrap_or(i64::MAX));
                }
                MigrationParameter::ParallelConnections => {
                    let connections = u32::try_from(after.parallel_connections).ok();
                    options.parallel_migration_threads = connections.filter(|count| *count > 0);
                    if options.parallel_migration_threads.is_none() {
                        drop_compression(options);
                    }
                }
                MigrationParameter::AllowPostCopy => {
                    options.allow_post_copy = after.allow_post_copy;
                    // As KubeVirt sets it where only post-copy is configured: without it post-copy never begins.
                    options.allow_workload_disruption = after.allow_post_copy;
                }
                MigrationParameter::AllowAutoConverge => {
                    options.allow_auto_converge = after.allow_auto_converge;
                }
                MigrationParameter::CompletionTimeout => {
                    let seconds = i64::try_from(after.completion_timeout);
                    options.completion_timeout_per_gib = seconds.unwrap_or(i64::MAX);
                }
                MigrationParameter::MaxDowntime => {
                    options.max_downtime_ms = after.max_downtime;
                    self.hooked_downtime = Some(after.max_downtime);
                }
            }
        }
        self
    }

    /// Whether host devices are assigned to the guest.
    pub(super) fn has_host_devices(&self) -> bool {
        let devices = &self.vmi.spec.domain.devices;
        let mut interfaces = devices.interfaces.iter();
        !devices.host_devices.is_empty()
            || !devices.gpus.is_empty()
            || interfaces.any(|interface| interface.sriov.is_some())
    }
}

/// libvirt compresses only memory that is sent over parallel connections, and refuses the migration otherwise.
fn drop_compression(options: &mut MigrationOptions) {
    if let Some(method) = options.compression.take() {
        tracing::warn!(
            method,
            "a hook turned parallel connections off: the migration is not compressed"
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: Value, status: Value) -> Result<MigrationJob, String> {
        let vmi = json!({"metadata": {"name": "vm1", "namespace": "default"}, "spec": spec, "status": status});
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let options = MigrationOptions::default();
        MigrationJob::new(vmi, options).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn vmi_without_a_migration_or_with_a_backup_is_refused() {
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
    fn only_parameters_that_hooks_change_become_options() {
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
            "post-copy begins only with it"
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
    fn sriov_gpus_and_host_devices_are_host_devices() {
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
}
