//! The task of a migration.

use std::sync::Arc;
use std::time::Duration;

use domain::migration::completion_units;
use libvirt::{DomainState, JobStats, Reason, State};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::decide_guest_location::GuestLocation;
use super::guest_location_query::{GuestLocationQuery, Target};
use super::hung_abort::{AbortWatch, Attempt};
use super::iteration_events::Iterations;
use super::libvirt_parameters;
use super::local_disk_size;
use super::migrate_call::{self, MigrateResult};
use super::migration_record::MigrationRecord;
use super::migration_request::MigrationJob;
use super::monitor::{Action, Cause, Input, MigrationLimits, Monitor, SAMPLE_INTERVAL, Sample};
use super::monitor_actions::{self, ActionResult};
use super::sriov_interfaces::{self, DetachedDevices};
use crate::blocking;
use crate::jobs::{AbortReason, JobConnection, JobContext, JobError, abort_reason};

/// Reading the sizes of local disks, and calls that QEMU answers at once.
const QUICK: Duration = Duration::from_secs(10);
/// The progress is logged with each tenth sample.
const LOG_EACH: u32 = 10;
/// KubeVirt's functional tests let a migration fail by this annotation.
const FORCED_FAILURE: &str = "kubevirt.io/func-test-force-launcher-migration-failure";

/// How a running migration is controlled.
pub(in crate::jobs) struct MigrationControl {
    /// The VM, or the launcher, ends.
    pub(in crate::jobs) aborted: watch::Receiver<Option<AbortReason>>,
    /// virt-handler cancels the migration.
    pub(in crate::jobs) cancelled: mpsc::UnboundedReceiver<()>,
    /// libvirt's latest statistics, for queries.
    pub(in crate::jobs) progress: watch::Sender<Option<JobStats>>,
}

/// Migrates, without a deadline of its own.
pub(in crate::jobs) async fn run(
    context: Arc<JobContext>,
    job: MigrationJob,
    record: MigrationRecord,
    mut control: MigrationControl,
) -> Result<(), JobError> {
    let begun = Instant::now();
    tracing::info!(migration = job.uid(), "a migration begins");
    let uid = job.uid().to_owned();
    let begin = async {
        let job = hooked(&context, job).await?;
        Ok::<_, JobError>((job, context.open().await?))
    };
    let result = tokio::select! {
        biased;
        error = control.ended(&record) => Err(error),
        opened = begin => match opened {
            Ok((job, connection)) => {
                let migration = SourceMigration::new(&context, &job, &record, connection, begun);
                migration.run(&mut control).await
            }
            Err(error) => Err(error),
        },
    };
    control.progress.send_replace(None);
    let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &result {
        Ok(()) => tracing::info!(migration = uid, millis, "the virtual machine has migrated"),
        Err(error) => {
            tracing::error!(migration = uid, millis, reason = %error, "Live migration failed.");
        }
    }
    result
}

/// The migration with the parameters that hooks give it.
async fn hooked(context: &JobContext, job: MigrationJob) -> Result<MigrationJob, JobError> {
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
    /// Waits until the migration is not wanted any more, before libvirt has anything to abort.
    async fn ended(&mut self, record: &MigrationRecord) -> JobError {
        tokio::select! {
            biased;
            reason = abort_reason(&mut self.aborted) => JobError::Aborted(reason),
            () = cancel(&mut self.cancelled) => {
                record.begin_abort();
                JobError::Cancelled
            }
        }
    }
}

async fn cancel(cancelled: &mut mpsc::UnboundedReceiver<()>) {
    if cancelled.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// What happens while libvirt's call runs.
enum Happening {
    Cancelled,
    VmEnds(AbortReason),
    Iteration,
    Tick,
}

/// One migration.
struct SourceMigration<'a> {
    context: &'a JobContext,
    job: &'a MigrationJob,
    record: &'a MigrationRecord,
    connection: JobConnection,
    begun: Instant,
    detached: DetachedDevices,
    was_paused: bool,
    /// The monitor has suspended the guest, or has tried to.
    was_suspended: bool,
    /// An abort that may hang.
    abort: AbortWatch,
    /// Why the VM ends, if that ends the migration.
    ending: Option<AbortReason>,
}

impl<'a> SourceMigration<'a> {
    fn new(
        context: &'a JobContext,
        job: &'a MigrationJob,
        record: &'a MigrationRecord,
        connection: JobConnection,
        begun: Instant,
    ) -> Self {
        SourceMigration {
            context,
            job,
            record,
            connection,
            begun,
            detached: DetachedDevices::new(),
            was_paused: false,
            was_suspended: false,
            abort: AbortWatch::default(),
            ending: None,
        }
    }

    async fn run(mut self, control: &mut MigrationControl) -> Result<(), JobError> {
        let Err(error) = self.migrate(control).await else {
            return Ok(());
        };
        self.record.deny_aborts();
        match self.learn_outcome(&error, control).await {
            GuestLocation::OnTarget => Ok(()),
            GuestLocation::Unknown => {
                let error = match self.ending {
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

    async fn migrate(&mut self, control: &mut MigrationControl) -> Result<(), JobError> {
        if self.job.vmi().annotation(FORCED_FAILURE).is_some() {
            return Err(JobError::ForcedFailure);
        }
        let limits = self.limits().await;
        let (context, job) = (self.context, self.job);
        let call = tokio::select! {
            biased;
            error = control.ended(self.record) => return Err(error),
            prepared = migrate_call::prepare(context, job, &self.connection.domain, &mut self.detached) => prepared?,
        };
        self.was_paused = call.is_paused;
        let iterations =
            Iterations::watch(limits, &self.connection.hypervisor, &self.context.domain).await;
        let limits = match iterations.is_watched() {
            true => limits,
            false => limits.without_iterations(),
        };
        self.context.migration.log.clear();
        let migrated = migrate_call::send(&self.connection.domain, call)?;
        self.watch(Monitor::new(limits), migrated, iterations, control)
            .await
    }

    async fn limits(&self) -> MigrationLimits {
        let vmi = self.job.vmi();
        let mut disks = 0;
        if vmi.status.migration_method == "BlockMigration" {
            let directory = self.context.migration.ephemeral_disks.clone();
            let read = move || local_disk_size::of_files(&directory);
            disks = blocking::file_call("reading the sizes of local disks", QUICK, read)
                .await
                .unwrap_or_default();
        }
        let units = completion_units(vmi, disks);
        MigrationLimits::new(self.job.options(), units, self.job.has_host_devices())
            .with_first_downtime(self.job.hooked_downtime())
    }

    /// Waits for the end of libvirt's call, and lets the monitor act meanwhile.
    async fn watch(
        &mut self,
        mut monitor: Monitor,
        mut migrated: MigrateResult,
        mut iterations: Iterations,
        control: &mut MigrationControl,
    ) -> Result<(), JobError> {
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples = 0;
        loop {
            if self.abort.is_late() {
                let (connect, target) = (&self.context.connect_target, self.target());
                let attempt = tokio::select! {
                    biased;
                    result = &mut migrated => return self.result(result),
                    attempt = self.abort.attempt(&self.connection.domain, connect, target) => attempt,
                };
                if attempt == Attempt::Impossible {
                    // So that virt-handler, and the monitor, may ask for it again.
                    if self.ending.is_none() {
                        self.record.fail_abort();
                    }
                    monitor.observe(Input::Outcome {
                        action: Action::Abort(Cause::Cancelled),
                        elapsed: self.begun.elapsed(),
                        succeeded: false,
                    });
                }
                self.abort.begin();
            }
            let happening = tokio::select! {
                biased;
                result = &mut migrated => return self.result(result),
                reason = abort_reason(&mut control.aborted), if self.ending.is_none() => Happening::VmEnds(reason),
                () = cancel(&mut control.cancelled) => Happening::Cancelled,
                () = iterations.next() => Happening::Iteration,
                _ = ticks.tick() => Happening::Tick,
            };
            let input = match happening {
                Happening::Cancelled => Input::Cancel,
                Happening::VmEnds(reason) => {
                    self.ending = Some(reason);
                    Input::Cancel
                }
                Happening::Iteration | Happening::Tick => {
                    let begins_iteration = matches!(happening, Happening::Iteration);
                    let sample = tokio::select! {
                        biased;
                        result = &mut migrated => return self.result(result),
                        sample = self.sample(begins_iteration, iterations.is_watched()) => sample,
                    };
                    control.progress.send_replace(sample.stats);
                    if samples % LOG_EACH == 0 {
                        self.log(sample.stats);
                    }
                    samples += 1;
                    Input::Sample(sample)
                }
            };
            for action in monitor.observe(input) {
                if matches!(action, Action::Abort(_)) && self.ending.is_none() {
                    self.record.begin_abort();
                }
                self.was_suspended |= action == Action::Suspend;
                let carried = tokio::select! {
                    biased;
                    result = &mut migrated => return self.result(result),
                    carried = monitor_actions::carry_out(&self.connection.domain, action) => carried,
                };
                if matches!(action, Action::Abort(_)) {
                    if carried != ActionResult::Refused {
                        self.abort.begin();
                    }
                    if carried != ActionResult::Out && self.ending.is_none() {
                        self.record.fail_abort();
                    }
                }
                monitor.observe(Input::Outcome {
                    action,
                    elapsed: self.begun.elapsed(),
                    succeeded: carried == ActionResult::Out,
                });
            }
            self.record.set_mode(monitor.mode());
        }
    }

    fn target(&self) -> Target {
        Target {
            uri: libvirt_parameters::destination(self.job, &self.context.migration.share),
            domain: libvirt_parameters::destination_name(self.job),
        }
    }

    async fn sample(&self, begins_iteration: bool, needs_state: bool) -> Sample {
        let stats = monitor_actions::stats(&self.connection.domain).await;
        let is_paused = needs_state
            && monitor_actions::state(&self.connection.domain)
                .await
                .is_ok_and(|state| state.is_stopped_for_migration());
        Sample {
            elapsed: self.begun.elapsed(),
            stats,
            is_paused,
            begins_iteration,
        }
    }

    fn log(&self, stats: Option<JobStats>) {
        let Some(stats) = stats else { return };
        tracing::info!(
            migration = self.job.uid(),
            millis = stats.time_elapsed,
            processed = stats.data_processed,
            remaining = stats.data_remaining,
            total = stats.data_total,
            bytes_per_second = stats.memory_bps,
            iteration = stats.memory_iteration,
            "the migration goes on"
        );
    }

    fn result(
        &self,
        result: Result<libvirt::Result<()>, tokio::sync::oneshot::error::RecvError>,
    ) -> Result<(), JobError> {
        match (result, self.ending) {
            (Ok(Ok(())), _) => Ok(()),
            // The abort may have come first and ended QEMU.
            (_, Some(reason)) => Err(JobError::Aborted(reason)),
            (Ok(Err(error)), None) => Err(error.into()),
            (Err(_), None) => Err(JobError::Fault),
        }
    }

    /// Where the guest is after an error. The error may only mean that the connection has ended while the migration went on,
    /// and after post-copy has begun, there is no way back.
    async fn learn_outcome(
        &mut self,
        error: &JobError,
        control: &mut MigrationControl,
    ) -> GuestLocation {
        let broke_off = !self.connection.domain.is_connected() || matches!(error, JobError::Fault);
        if !broke_off {
            let state = monitor_actions::state(&self.connection.domain).await;
            let is_left =
                |state: State| state.may_run_on_target() && !state.is_stopped_for_migration();
            if state.is_ok_and(|state| !is_left(state)) {
                return GuestLocation::OnSource;
            }
        }
        if self.ending.is_some() {
            return GuestLocation::Unknown;
        }
        self.record.lose_abort();
        self.record.allow_aborts();
        let target = self.target();
        let mut inquiry =
            GuestLocationQuery::new(self.context, target, self.was_paused, self.was_suspended);
        let outcome = {
            let inquiring = inquiry.run();
            tokio::pin!(inquiring);
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut inquiring => break outcome,
                    reason = abort_reason(&mut control.aborted) => {
                        self.ending = Some(reason);
                        break GuestLocation::Unknown;
                    }
                    // There is nothing left to abort.
                    () = cancel(&mut control.cancelled) => self.record.fail_abort(),
                }
            }
        };
        if let Some(connection) = inquiry.connection {
            self.connection = connection;
        }
        self.record.deny_aborts();
        // An abort that was requested meanwhile has come too late.
        self.record.lose_abort();
        outcome
    }

    /// The error with the failure that libvirt has noted before. The connection that the error is about is not the
    /// launcher's if that one is still open: it is the daemon's to the target.
    async fn explain(&self, error: JobError) -> JobError {
        match error {
            JobError::Libvirt(error)
                if error.is_unsent() && self.connection.domain.is_connected() =>
            {
                match self.context.migration.log.first_error().await {
                    Some(reason) => JobError::TargetLost { error, reason },
                    None => error.into(),
                }
            }
            other => other,
        }
    }

    /// After a failure the VM is as it was: libvirt resumes it, and this is for the case that libvirt could not.
    async fn restore(&self) {
        if matches!(self.ending, Some(AbortReason::Kill | AbortReason::Exit)) {
            return;
        }
        // libvirt's own reason, should it fail to resume the guest.
        let is_stopped = |state: State| {
            state.is_stopped_for_migration()
                || state == State::new(DomainState::Paused, Reason::ApiError)
        };
        let state = monitor_actions::state(&self.connection.domain).await;
        if !self.was_paused && state.is_ok_and(is_stopped) {
            let domain = Arc::clone(&self.connection.domain);
            let resume = move || domain.resume();
            let resumed = blocking::call("resuming the guest", QUICK, resume).await;
            if !matches!(resumed, Ok(Ok(()))) {
                tracing::error!(
                    ?resumed,
                    "the guest stays paused after the migration failed"
                );
            }
        }
        sriov_interfaces::attach(&self.connection.domain, &self.detached).await;
    }
}
