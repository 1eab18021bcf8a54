//! The task of a migration from this pod.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::migration::completion_units;
use libvirt::{DestroyMode, Domain, DomainState, JobStats, Reason, State};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::guest_location::{BlockingQuery, GuestLocation, GuestLocationQuery, Target};
use super::migrate_call::MigrateResult;
use super::migration_metadata::MigrationRecord;
use super::monitor::{
    AbortCause, Action, Input, MigrationLimits, Monitor, SAMPLE_INTERVAL, Sample,
};
use super::monitor_calls::{ActionResult, IterationEvents};
use super::sriov_interfaces::DetachedDevices;
use super::{MigrationJob, migrate_call, monitor_calls, sriov_interfaces};
use crate::blocking;
use crate::jobs::{AbortReason, JobConnection, JobContext, JobError, wait_for_abort};
use crate::libvirt_client::ConnectTarget;

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
            let read = move || migrate_call::total_file_size(&directory);
            disks = blocking::file_call("reading the sizes of local disks", CALL_TIMEOUT, read)
                .await
                .unwrap_or_default();
        }
        let units = completion_units(vmi, disks);
        MigrationLimits::new(self.job.options(), units, self.job.has_host_devices())
            .with_hooked_downtime(self.job.hooked_downtime())
    }
}

/// The progress is logged with one of this many samples.
const SAMPLES_PER_LOG_LINE: u32 = 10;

/// An event while libvirt's call runs.
enum CallEvent {
    /// virt-handler cancels the migration.
    Cancelled,
    /// The VM or the launcher ends.
    VmEnds(AbortReason),
    /// An iteration over the guest's memory begins.
    Iteration,
    /// The next sample is due.
    Tick,
}

impl SourceMigration<'_> {
    /// Waits for the end of libvirt's call, and meanwhile feeds the monitor and carries out its actions.
    async fn watch(
        &mut self,
        mut monitor: Monitor,
        mut migrated: MigrateResult,
        mut iterations: IterationEvents,
        control: &mut MigrationControl,
    ) -> Result<(), JobError> {
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples = 0;
        loop {
            if self.abort_watch.is_late() {
                let (connect, target) = (&self.context.connect_target, self.target());
                let attempt = tokio::select! {
                    biased;
                    result = &mut migrated => return self.call_result(result),
                    attempt = self.abort_watch.attempt(&self.connection.domain, connect, target) => attempt,
                };
                if attempt == AttemptResult::Impossible {
                    // The abort has failed, so that virt-handler and the monitor may request another.
                    if self.abort_reason_of_vm.is_none() {
                        self.record.fail_abort();
                    }
                    monitor.observe(Input::Outcome {
                        action: Action::Abort(AbortCause::Cancelled),
                        elapsed: self.started_at.elapsed(),
                        succeeded: false,
                    });
                }
                self.abort_watch.begin();
            }
            let event = tokio::select! {
                biased;
                result = &mut migrated => return self.call_result(result),
                reason = wait_for_abort(&mut control.aborted), if self.abort_reason_of_vm.is_none() => {
                    CallEvent::VmEnds(reason)
                }
                () = wait_for_cancel(&mut control.cancelled) => CallEvent::Cancelled,
                () = iterations.next() => CallEvent::Iteration,
                _ = ticks.tick() => CallEvent::Tick,
            };
            let input = match event {
                CallEvent::Cancelled => Input::Cancel,
                CallEvent::VmEnds(reason) => {
                    self.abort_reason_of_vm = Some(reason);
                    Input::Cancel
                }
                CallEvent::Iteration | CallEvent::Tick => {
                    let begins_iteration = matches!(event, CallEvent::Iteration);
                    let sample = tokio::select! {
                        biased;
                        result = &mut migrated => return self.call_result(result),
                        sample = self.sample(begins_iteration, iterations.is_watched()) => sample,
                    };
                    control.progress.send_replace(sample.stats);
                    if samples % SAMPLES_PER_LOG_LINE == 0 {
                        self.log_progress(sample.stats);
                    }
                    samples += 1;
                    Input::Sample(sample)
                }
            };
            for action in monitor.observe(input) {
                if matches!(action, Action::Abort(_)) && self.abort_reason_of_vm.is_none() {
                    self.record.begin_abort();
                }
                self.was_suspended |= action == Action::Suspend;
                let domain = Arc::clone(&self.connection.domain);
                let mut carried_out = pin!(monitor_calls::carry_out(&domain, action));
                let action_result = tokio::select! {
                    biased;
                    result = &mut migrated => {
                        // Otherwise libvirt could pause the guest after the failed migration has resumed it.
                        if action == Action::Suspend {
                            self.is_suspend_unanswered =
                                carried_out.await == ActionResult::Unanswered;
                        }
                        return self.call_result(result);
                    }
                    action_result = &mut carried_out => action_result,
                };
                self.is_suspend_unanswered |=
                    action == Action::Suspend && action_result == ActionResult::Unanswered;
                if matches!(action, Action::Abort(_)) {
                    if action_result != ActionResult::Refused {
                        self.abort_watch.begin();
                    }
                    if action_result != ActionResult::Done && self.abort_reason_of_vm.is_none() {
                        self.record.fail_abort();
                    }
                }
                monitor.observe(Input::Outcome {
                    action,
                    elapsed: self.started_at.elapsed(),
                    succeeded: action_result == ActionResult::Done,
                });
            }
            self.record.set_mode(monitor.mode());
        }
    }

    /// The target's daemon and domain.
    fn target(&self) -> Target {
        Target {
            uri: migrate_call::destination(self.job, &self.context.migration.share),
            domain: migrate_call::destination_name(self.job),
        }
    }

    /// Takes a sample for the monitor.
    async fn sample(&self, begins_iteration: bool, needs_state: bool) -> Sample {
        let stats = monitor_calls::stats(&self.connection.domain).await;
        let is_paused = needs_state
            && monitor_calls::state(&self.connection.domain)
                .await
                .is_ok_and(|state| state.is_stopped_for_migration());
        Sample {
            elapsed: self.started_at.elapsed(),
            stats,
            is_paused,
            begins_iteration,
        }
    }

    fn log_progress(&self, stats: Option<JobStats>) {
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

    /// Converts the result of libvirt's call.
    fn call_result(
        &self,
        result: Result<libvirt::Result<()>, tokio::sync::oneshot::error::RecvError>,
    ) -> Result<(), JobError> {
        match (result, self.abort_reason_of_vm) {
            (Ok(Ok(())), _) => Ok(()),
            // The call may have failed because an abort ended QEMU.
            (_, Some(reason)) => Err(JobError::Aborted(reason)),
            (Ok(Err(error)), None) => Err(error.into()),
            (Err(_), None) => Err(JobError::Internal),
        }
    }

    /// Finds out where the guest is after an error of libvirt's call. The error may only mean that the connection was
    /// lost while the migration continued; and once post-copy has begun, the guest cannot return.
    async fn find_guest(
        &mut self,
        error: &JobError,
        control: &mut MigrationControl,
    ) -> GuestLocation {
        let is_call_broken_off =
            !self.connection.domain.is_connected() || matches!(error, JobError::Internal);
        if !is_call_broken_off {
            let state = monitor_calls::state(&self.connection.domain).await;
            let is_left =
                |state: State| state.may_run_on_target() && !state.is_stopped_for_migration();
            if state.is_ok_and(|state| !is_left(state)) {
                return GuestLocation::OnSource;
            }
        }
        if self.abort_reason_of_vm.is_some() {
            return GuestLocation::Unknown;
        }
        self.record.fail_pending_abort();
        self.record.accept_aborts();
        let target = self.target();
        let mut query =
            GuestLocationQuery::new(self.context, target, self.was_paused, self.was_suspended);
        let location = {
            let querying = query.run();
            tokio::pin!(querying);
            loop {
                tokio::select! {
                    biased;
                    location = &mut querying => break location,
                    reason = wait_for_abort(&mut control.aborted) => {
                        self.abort_reason_of_vm = Some(reason);
                        break GuestLocation::Unknown;
                    }
                    // libvirt has no job that could be aborted.
                    () = wait_for_cancel(&mut control.cancelled) => self.record.fail_abort(),
                }
            }
        };
        if let Some(connection) = query.connection {
            self.connection = connection;
        }
        self.record.ignore_aborts();
        // An abort that was requested meanwhile came too late.
        self.record.fail_pending_abort();
        location
    }

    /// Adds the reason from libvirt's log to an error about a lost connection. If the launcher's own connection is
    /// still open, the lost one is the daemon's connection to the target, and the migration had failed before.
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

    /// Brings the VM back to its state before the migration: resumes the guest if libvirt could not, and attaches the
    /// SR-IOV interfaces again.
    async fn restore(&self) {
        if matches!(
            self.abort_reason_of_vm,
            Some(AbortReason::Kill | AbortReason::Exit)
        ) {
            return;
        }
        // libvirt reports ApiError if it failed to resume the guest, and User if it paused the guest for the monitor
        // when its job of the migration had ended. The VM's owner cannot pause a guest that migrates.
        let is_stopped = |state: State| {
            let is_paused = |reason| state == State::new(DomainState::Paused, reason);
            state.is_stopped_for_migration()
                || is_paused(Reason::ApiError)
                || (self.was_suspended && is_paused(Reason::User))
        };
        let state = monitor_calls::state(&self.connection.domain).await;
        let is_stopped = state.is_ok_and(is_stopped);
        if !self.was_paused && (is_stopped || self.is_suspend_unanswered) {
            self.resume(is_stopped).await;
        }
        sriov_interfaces::attach(&self.connection.domain, &self.detached).await;
    }

    /// Resumes the guest. libvirt carries out one request after the other: if it has yet to pause the guest, it resumes
    /// the guest after that.
    async fn resume(&self, is_stopped: bool) {
        let domain = Arc::clone(&self.connection.domain);
        let resume = move || domain.resume();
        match blocking::call("resuming the guest", CALL_TIMEOUT, resume).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.is_operation_invalid() && !is_stopped => {}
            resumed => tracing::error!(
                ?resumed,
                "the guest stays paused after the migration failed"
            ),
        }
    }
}

// Handles an abort that libvirt has accepted but that does not end the migration.
//
// QEMU 10.0 can deadlock when a migration with local disks is aborted as its transfer begins: the source waits for the
// target's NBD server, whose thread waits for the first bytes of the source's next channel. The guest is stopped until
// one of the two processes ends. The guest is still on the source and not in the target's QEMU, so the target's QEMU
// can be killed.
//
// ```text
//   source            target's domain        what is tried
//   runs              waits for the guest    the target's domain is destroyed
//   runs              does not exist         nothing: the guest runs here, and libvirt's call does not end
//   runs              has the guest          nothing
//   paused to switch  (not asked)            nothing: the guest may be about to run on the target
// ```
// The guest is not suspended meanwhile, because libvirt would allow to resume it only after its call.

/// How long to wait before the first attempt to end the migration, and between two attempts. A normal abort takes less
/// than a second.
const ATTEMPT_DELAY: Duration = Duration::from_secs(10);
/// Timeout of destroying the target's domain. libvirt waits up to 15 s for a QEMU that does not react to SIGTERM,
/// before and after SIGKILL.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(20);

/// Watches an abort, and tries to end the migration if the abort takes too long.
#[derive(Default)]
pub(super) struct HungAbortWatch {
    /// When the next attempt is due.
    next_attempt: Option<Instant>,
    target: BlockingQuery<libvirt::Result<TargetDomain>>,
}

/// The result of an attempt to end the migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptResult {
    /// The attempt may have ended the migration.
    Made,
    /// Nothing can be done now.
    Impossible,
}

/// The state of the domain on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetDomain {
    /// The domain waited for the guest, and was destroyed.
    Ended,
    Absent,
    /// The domain does not wait for the guest, so it may have the guest.
    HasGuest,
}

impl HungAbortWatch {
    /// Starts to wait for the end, after libvirt was asked to abort or an attempt was made.
    pub(super) fn begin(&mut self) {
        self.next_attempt = Some(Instant::now() + ATTEMPT_DELAY);
    }

    /// Whether the abort has taken too long, so that an attempt is due.
    pub(super) fn is_late(&self) -> bool {
        self.next_attempt.is_some_and(|due| due <= Instant::now())
    }

    /// Tries to end the migration, as in the table above.
    pub(super) async fn attempt(
        &mut self,
        source: &Arc<dyn Domain>,
        connect: &ConnectTarget,
        target: Target,
    ) -> AttemptResult {
        let state = match monitor_calls::state(source).await {
            Ok(state) => state,
            Err(error) => {
                tracing::error!(reason = %error, "the migration was aborted and does not end; libvirt does not tell the guest's state");
                return AttemptResult::Impossible;
            }
        };
        if !state.is_active() {
            return AttemptResult::Made;
        }
        if state.may_run_on_target() {
            tracing::error!(
                "the migration was aborted and does not end, and the guest is stopped for its switch to the target: \
                 nothing is done about it, since the guest may be about to run there"
            );
            return AttemptResult::Impossible;
        }
        let connect = Arc::clone(connect);
        let destroy = || move || destroy_waiting_domain(&connect, &target);
        match self.target.run(DESTROY_TIMEOUT, destroy).await {
            Some(Ok(TargetDomain::Ended)) => {
                tracing::warn!(
                    "the migration was aborted and did not end: the domain that waits on the target is ended"
                );
                AttemptResult::Made
            }
            Some(Ok(TargetDomain::Absent)) => {
                tracing::error!(
                    "the migration was aborted and libvirt's call does not end; the guest runs on here"
                );
                AttemptResult::Impossible
            }
            Some(Ok(TargetDomain::HasGuest)) => {
                tracing::error!(
                    "the migration was aborted and does not end, and the target's domain does not wait for the guest"
                );
                AttemptResult::Impossible
            }
            Some(Err(error)) => {
                tracing::error!(reason = %error, "the migration was aborted and does not end; the domain that waits on the target is not ended");
                AttemptResult::Impossible
            }
            None => {
                tracing::error!(
                    "the migration was aborted and does not end; the target does not answer"
                );
                AttemptResult::Impossible
            }
        }
    }
}

/// Destroys the target's domain if it waits for its guest. Blocking.
fn destroy_waiting_domain(
    connect: &ConnectTarget,
    target: &Target,
) -> libvirt::Result<TargetDomain> {
    let Some(domain) = connect(&target.uri)?.lookup(&target.domain)? else {
        return Ok(TargetDomain::Absent);
    };
    let state = domain.state()?;
    if !state.is_active() {
        return Ok(TargetDomain::Absent);
    }
    if !state.is_before_arrival() {
        return Ok(TargetDomain::HasGuest);
    }
    domain.destroy(DestroyMode::Forceful)?;
    Ok(TargetDomain::Ended)
}
