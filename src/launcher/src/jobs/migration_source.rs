//! The source of a live migration. [`migration_task`] carries a migration out; the rules ([`monitor`],
//! [`guest_location_decision`]) are pure.
//!
//! ```text
//!   record begun ─▶ [prepare: host devices, XML] ─▶ [libvirt's call] ─▶ record ended
//!                            │                          │  ▲ samples, actions
//!                            └──── cancel ──▶ aborted   └──┴─ monitor
//! ```
//! If the call breaks off because libvirt's daemon died, [`guest_location_query`] asks both daemons where the guest is,
//! by the rules of [`guest_location_decision`].
//!
//! The response to virt-handler says only that the migration begins. Everything else is in the record, which is part of
//! each notification. Every record is completed exactly once, and a migration's UID is executed only once.

mod guest_location;
mod migrate_call;
mod migration_metadata;
mod migration_task;
mod monitor;
mod monitor_calls;
mod sriov_interfaces;

use std::sync::Arc;

use hook_host::{MigrationParameter, MigrationParameters};
use kubevirt_api::domain_metadata::Migration;
use kubevirt_api::migration_metadata_values::RequestedMigration;
use kubevirt_api::migration_options::MigrationOptions;
use kubevirt_api::vmi::{MigrationState, Vmi};
use quantity::Quantity;
use tokio::sync::mpsc;

use crate::jobs::{JobError, JobKind, JobStart, Jobs};
use migration_metadata::MigrationRecord;
use migration_task::MigrationControl;

/// The running migration.
pub(super) struct RunningMigration {
    record: MigrationRecord,
    /// Asks the migration's task to cancel.
    cancel: mpsc::Sender<()>,
}

impl Jobs {
    /// Starts a migration, unless a job is running or the last migration had the same UID.
    pub fn start_migration(&self, job: MigrationJob) -> JobStart {
        let mut state = self.lock();
        let last = self.context.recorder.migration();
        match (Migration::request(last.as_ref(), job.uid()), last) {
            (RequestedMigration::Ended, Some(last)) => {
                return JobStart::AlreadyExecuted(Box::new(last));
            }
            (RequestedMigration::UnderWay, _) => return JobStart::AlreadyRunning,
            _ => {}
        }
        // A second target could run the guest beside the first one.
        let running = self
            .running
            .borrow()
            .or(state.has_left.then_some(JobKind::Migration));
        if let Some(running) = running {
            return JobStart::Busy(running);
        }
        let aborted = self.begin_job(&mut state, JobKind::Migration);
        self.context.job_events.begin_migration();
        let record = MigrationRecord::begin(job.uid(), Arc::clone(&self.context.recorder));
        let (cancel, cancelled) = mpsc::channel(1);
        state.migration = Some(RunningMigration {
            record: record.clone(),
            cancel,
        });
        let control = MigrationControl {
            aborted,
            cancelled,
            progress: self.migration_progress.clone(),
        };
        tokio::spawn(self.clone().run_migration(job, record, control));
        JobStart::Started
    }

    /// Cancels the running migration, unless it is being aborted already. Returns at once.
    pub fn cancel_migration(&self) {
        let state = self.lock();
        let Some(migration) = &state.migration else {
            tracing::info!("there is no migration to cancel");
            return;
        };
        if migration.record.request_abort() {
            // Fails when the migration has just ended, or is being cancelled already.
            let _ = migration.cancel.try_send(());
        }
    }

    async fn run_migration(
        self,
        job: MigrationJob,
        record: MigrationRecord,
        control: MigrationControl,
    ) {
        let run = migration_task::run(Arc::clone(&self.context), job, record.clone(), control);
        let result = tokio::spawn(run).await.unwrap_or(Err(JobError::Internal));
        let mut state = self.lock();
        state.has_left = matches!(&result, Ok(()) | Err(JobError::GuestMayHaveMoved(_)));
        state.migration = None;
        state.abort = None;
        // The state is locked until no job runs: virt-handler may request the next migration as soon as it has read the
        // end.
        record.complete(result);
        self.running.send_replace(None);
    }
}

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
    fn options(&self) -> &MigrationOptions {
        &self.options
    }

    /// The maximum downtime in milliseconds, if a hook has set it.
    fn hooked_downtime(&self) -> Option<u64> {
        self.hooked_downtime
    }

    /// The options that hooks may change.
    fn parameters(&self) -> MigrationParameters {
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
    fn with_parameters(mut self, after: &MigrationParameters) -> MigrationJob {
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
    fn has_host_devices(&self) -> bool {
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
