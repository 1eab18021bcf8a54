//! A request to migrate.

use kubevirt_api::migration_options::MigrationOptions;
use kubevirt_api::vmi::{MigrationState, Vmi};

const BACKUP: &str = "/status/changedBlockTracking/backupStatus";

/// A migration to be made.
#[derive(Debug, Clone)]
pub struct MigrationJob {
    vmi: Vmi,
    options: MigrationOptions,
    uid: String,
}

/// Why a VMI is not migrated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationRefusal {
    /// virt-controller has not said which migration.
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
        Ok(MigrationJob { vmi, options, uid })
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

    /// Whether host devices are assigned to the guest.
    pub(super) fn has_host_devices(&self) -> bool {
        let devices = &self.vmi.spec.domain.devices;
        let mut interfaces = devices.interfaces.iter();
        !devices.host_devices.is_empty()
            || !devices.gpus.is_empty()
            || interfaces.any(|interface| interface.sriov.is_some())
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
