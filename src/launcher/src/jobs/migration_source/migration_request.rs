//! A request to migrate the VM, and the changes that hooks make to its parameters.

use hook_host::{MigrationParameter, MigrationParameters};
use kubevirt_api::migration_options::MigrationOptions;
use kubevirt_api::vmi::{MigrationState, Vmi};
use quantity::Quantity;

const BACKUP_STATUS_POINTER: &str = "/status/changedBlockTracking/backupStatus";

/// A requested migration.
#[derive(Debug, Clone)]
pub struct MigrationJob {
    vmi: Vmi,
    options: MigrationOptions,
    uid: String,
    /// The maximum downtime in milliseconds, if a hook has set it.
    hooked_downtime: Option<u64>,
}

/// Why a migration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationRefusal {
    /// The VMI has no migration state, with the migration's UID, from virt-controller yet.
    #[error("cannot migrate VMI until migrationState is ready")]
    NotReady,
    /// A backup of the VM is running.
    #[error("cannot migrate VMI until backup {0} is completed")]
    BackupRuns(String),
}

impl MigrationJob {
    /// The migration that the VMI's status describes.
    ///
    /// # Errors
    /// [`MigrationRefusal`] if the VMI cannot be migrated now.
    pub fn new(vmi: Vmi, options: MigrationOptions) -> Result<MigrationJob, MigrationRefusal> {
        if let Some(backup) = vmi
            .value()
            .pointer(BACKUP_STATUS_POINTER)
            .filter(|backup| !backup.is_null())
        {
            let name = backup["backupName"].as_str().unwrap_or_default();
            return Err(MigrationRefusal::BackupRuns(name.to_owned()));
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

    /// The UID of the migration, which both sides know.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The VMI.
    pub fn vmi(&self) -> &Vmi {
        &self.vmi
    }

    /// The options of the migration.
    pub(super) fn options(&self) -> &MigrationOptions {
        &self.options
    }

    /// The maximum downtime in milliseconds, if a hook has set it.
    pub(super) fn hooked_downtime(&self) -> Option<u64> {
        self.hooked_downtime
    }

    /// The options that hooks may change.
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

    /// Applies the parameters that hooks changed. Unchanged parameters leave their options as they are, because not
    /// every option can be expressed as a parameter.
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
                    // Without workload disruption post-copy never begins. KubeVirt sets both if post-copy is
                    // configured.
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

/// Turns compression off: libvirt compresses only memory that is sent over parallel connections, and otherwise refuses
/// the migration.
fn drop_compression(options: &mut MigrationOptions) {
    if let Some(method) = options.compression.take() {
        tracing::warn!(
            method,
            "a hook turned parallel connections off: the migration is not compressed"
        );
    }
}

#[cfg(test)]
mod tests;
