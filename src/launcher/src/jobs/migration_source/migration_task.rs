//! The task of a migration from this pod.

mod failed_migration_recovery;
mod migrate_call_watch;

use std::sync::Arc;
use std::time::Duration;

use domain::migration::completion_units;
use libvirt::JobStats;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::guest_location_decision::GuestLocation;
use super::hung_abort::HungAbortWatch;
use super::iteration_events::IterationEvents;
use super::local_disk_size;
use super::migrate_call;
use super::migration_metadata::MigrationRecord;
use super::migration_request::MigrationJob;
use super::monitor::{MigrationLimits, Monitor};
use super::sriov_detach_and_reattach::DetachedDevices;
use crate::blocking;
use crate::jobs::{AbortReason, JobConnection, JobContext, JobError, wait_for_abort};

/// Timeout of reading the sizes of local disks, and of calls that QEMU answers at once.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Annotation by which KubeVirt's functional tests let a migration fail.
const TEST_FAILURE_ANNOTATION: &str = "kubevirt.io/func-test-force-launcher-migration-failure";

/// The channels that control a running migration.
pub(in crate::jobs) struct MigrationControl {
    /// The reason to abort, when the VM or the launcher ends.
    pub(in crate::jobs) aborted: watch::Receiver<Option<AbortReason>>,
    /// Receives a message when virt-handler cancels the migration.
    pub(in crate::jobs) cancelled: mpsc::Receiver<()>,
    /// Publishes libvirt's latest statistics for queries.
    pub(in crate::jobs) progress: watch::Sender<Option<JobStats>>,
}

/// Runs a migration. The monitor limits its duration.
pub(in crate::jobs) async fn run(
    context: Arc<JobContext>,
    job: MigrationJob,
    record: MigrationRecord,
    mut control: MigrationControl,
) -> Result<(), JobError> {
    let started_at = Instant::now();
    tracing::info!(migration = job.uid(), "a migration begins");
    let uid = job.uid().to_owned();
    let begin = async {
        let job = with_hook_parameters(&context, job).await?;
        Ok::<_, JobError>((job, context.open().await?))
    };
    let result = tokio::select! {
        biased;
        error = control.wait_for_end(&record) => Err(error),
        opened = begin => match opened {
            Ok((job, connection)) => {
                let migration = SourceMigration::new(&context, &job, &record, connection, started_at);
                migration.run(&mut control).await
            }
            Err(error) => Err(error),
        },
    };
    control.progress.send_replace(None);
    let millis = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &result {
        Ok(()) => tracing::info!(migration = uid, millis, "the virtual machine has migrated"),
        Err(error) => {
            tracing::error!(migration = uid, millis, reason = %error, "Live migration failed.");
        }
    }
    result
}

/// Calls the hooks, which may change the parameters of the migration.
async fn with_hook_parameters(
    context: &JobContext,
    job: MigrationJob,
) -> Result<MigrationJob, JobError> {
    let vmi = job.vmi().raw_json();
    let after = (context.hooks).pre_migration_source(&context.invocation, vmi, job.parameters());
    let (after, runs) = after.await.map_err(|error| {
        context.hook_failures.report(&error);
        Box::new(error)
    })?;
    context.hook_failures.report_ignored(&runs);
    Ok(job.with_parameters(&after))
}

impl MigrationControl {
    /// Waits for an abort or a cancellation. Called before libvirt has a job that could be aborted.
    async fn wait_for_end(&mut self, record: &MigrationRecord) -> JobError {
        tokio::select! {
            biased;
            reason = wait_for_abort(&mut self.aborted) => JobError::Aborted(reason),
            () = wait_for_cancel(&mut self.cancelled) => {
                record.begin_abort();
                JobError::Cancelled
            }
        }
    }
}

/// Waits until virt-handler cancels the migration.
async fn wait_for_cancel(cancelled: &mut mpsc::Receiver<()>) {
    if cancelled.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// One migration from this pod.
struct SourceMigration<'a> {
    context: &'a JobContext,
    job: &'a MigrationJob,
    record: &'a MigrationRecord,
    connection: JobConnection,
    started_at: Instant,
    detached: DetachedDevices,
    /// Whether the guest was paused before the migration.
    was_paused: bool,
    /// Whether the monitor has suspended the guest, or has tried to.
    was_suspended: bool,
    /// Whether libvirt has not answered a request to suspend the guest, which it may still carry out.
    is_suspend_unanswered: bool,
    /// Watches an abort, which may hang.
    abort_watch: HungAbortWatch,
    /// The reason to abort, if the VM or the launcher ends.
    abort_reason_of_vm: Option<AbortReason>,
}

impl<'a> SourceMigration<'a> {
    fn new(
        context: &'a JobContext,
        job: &'a MigrationJob,
        record: &'a MigrationRecord,
        connection: JobConnection,
        started_at: Instant,
    ) -> Self {
        SourceMigration {
            context,
            job,
            record,
            connection,
            started_at,
            detached: DetachedDevices::new(),
            was_paused: false,
            was_suspended: false,
            is_suspend_unanswered: false,
            abort_watch: HungAbortWatch::default(),
            abort_reason_of_vm: None,
        }
    }

    /// Migrates the VM. After a failure, finds out where the guest is, and restores the VM here if the guest is here.
    async fn run(mut self, control: &mut MigrationControl) -> Result<(), JobError> {
        let Err(error) = self.migrate(control).await else {
            return Ok(());
        };
        self.record.ignore_aborts();
        match self.find_guest(&error, control).await {
            GuestLocation::OnTarget => Ok(()),
            GuestLocation::Unknown => {
                let error = match self.abort_reason_of_vm {
                    Some(reason) => JobError::Aborted(reason),
                    None => self.explain(error).await,
                };
                Err(JobError::GuestMayHaveMoved(Box::new(error)))
            }
            GuestLocation::OnSource => {
                self.restore().await;
                Err(self.explain(error).await)
            }
        }
    }

    /// Prepares and sends libvirt's call, and watches it.
    async fn migrate(&mut self, control: &mut MigrationControl) -> Result<(), JobError> {
        if self.job.vmi().annotation(TEST_FAILURE_ANNOTATION).is_some() {
            return Err(JobError::FailureByTestAnnotation);
        }
        let limits = self.limits().await;
        let (context, job) = (self.context, self.job);
        let call = tokio::select! {
            biased;
            error = control.wait_for_end(self.record) => return Err(error),
            prepared = migrate_call::prepare(context, job, &self.connection.domain, &mut self.detached) => prepared?,
        };
        self.was_paused = call.is_paused;
        let iterations =
            IterationEvents::watch(limits, &self.connection.hypervisor, &self.context.domain).await;
        let limits = match iterations.is_watched() {
            true => limits,
            false => limits.without_iterations(),
        };
        self.context.migration.log.clear();
        let migrated = migrate_call::send(&self.connection.domain, call)?;
        self.watch(Monitor::new(limits), migrated, iterations, control)
            .await
    }

    /// The limits of the monitor, which depend on the sizes of memory and disks.
    async fn limits(&self) -> MigrationLimits {
        let vmi = self.job.vmi();
        let mut disks = 0;
        if vmi.status.migration_method == "BlockMigration" {
            let directory = self.context.migration.ephemeral_disks.clone();
            let read = move || local_disk_size::total_file_size(&directory);
            disks = blocking::file_call("reading the sizes of local disks", CALL_TIMEOUT, read)
                .await
                .unwrap_or_default();
        }
        let units = completion_units(vmi, disks);
        MigrationLimits::new(self.job.options(), units, self.job.has_host_devices())
            .with_hooked_downtime(self.job.hooked_downtime())
    }
}
