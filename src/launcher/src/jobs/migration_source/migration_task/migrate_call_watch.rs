//! Watches libvirt's migrate call: takes samples, and carries out the monitor's actions.

use std::pin::pin;
use std::sync::Arc;

use libvirt::JobStats;
use tokio::time::{MissedTickBehavior, interval};

use super::super::guest_location_query::Target;
use super::super::hung_abort::AttemptResult;
use super::super::iteration_events::IterationEvents;
use super::super::migrate_call::MigrateResult;
use super::super::migrate_call_parameters;
use super::super::monitor::{AbortCause, Action, Input, Monitor, SAMPLE_INTERVAL, Sample};
use super::super::monitor_calls::{self, ActionResult};
use super::{MigrationControl, SourceMigration, wait_for_cancel};
use crate::jobs::{AbortReason, JobError, wait_for_abort};

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
    pub(super) async fn watch(
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
    pub(super) fn target(&self) -> Target {
        Target {
            uri: migrate_call_parameters::destination(self.job, &self.context.migration.share),
            domain: migrate_call_parameters::destination_name(self.job),
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
}
