//! The two timeouts of a migration: for progress, and for the whole migration.

use std::time::Duration;

use libvirt::JobStats;

use super::downtime_ramp::DowntimeRamp;
use super::{AbortCause, Action, MAX_DOWNTIME_MS, MigrationLimits, MigrationMode, Sample};

/// Decides by the two timeouts.
#[derive(Debug)]
pub(super) struct Timeouts {
    limits: MigrationLimits,
    /// The timeout of the whole migration in seconds, which is doubled when the guest is paused.
    limit: Option<u64>,
    /// The smallest remainder of this phase. A remainder that grows and shrinks again within a phase is no progress.
    smallest: Option<u64>,
    phase: Phase,
    /// When the last progress was made, since the beginning.
    progress_at: Duration,
    /// Whether completing the migration by force failed. libvirt refuses it before the transfer.
    force_failed: bool,
    downtimes: Option<DowntimeRamp>,
}

/// The phase of the transfer. Each phase begins with a larger remainder: libvirt copies disks first and counts memory
/// only after that, and each iteration over the guest's memory sends again what the guest has written meanwhile.
#[derive(Debug, Default)]
struct Phase {
    counts_memory: bool,
    memory_iteration: Option<u64>,
}

impl Phase {
    /// Takes in the statistics of a sample. Returns whether a new phase begins with it.
    fn begins(&mut self, stats: &JobStats) -> bool {
        let counts_memory = stats.memory_total.is_some_and(|total| total > 0);
        let begins = (counts_memory && !self.counts_memory)
            || stats.memory_iteration > self.memory_iteration;
        self.counts_memory |= counts_memory;
        self.memory_iteration = self.memory_iteration.max(stats.memory_iteration);
        begins
    }
}

impl Timeouts {
    pub(super) fn new(limits: MigrationLimits) -> Timeouts {
        Timeouts {
            limits,
            limit: limits.completion_timeout,
            smallest: None,
            phase: Phase::default(),
            progress_at: Duration::ZERO,
            force_failed: false,
            downtimes: limits.downtimes,
        }
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        mode: MigrationMode,
        is_aborting: bool,
    ) -> Vec<Action> {
        self.observe_progress(sample);
        // After post-copy has begun, an abort would end the guest.
        if mode == MigrationMode::PostCopy || is_aborting {
            return Vec::new();
        }
        let mut actions = self.set_downtime(sample, mode);
        actions.extend(self.decide(sample, mode));
        actions
    }

    /// Sets the maximum downtime that is due, once data is transferred: libvirt does not accept it before.
    fn set_downtime(&self, sample: &Sample, mode: MigrationMode) -> Vec<Action> {
        let downtimes = self
            .downtimes
            .filter(|_| mode == MigrationMode::PreCopy && sample.remaining().is_some());
        let iteration = sample.stats.and_then(|stats| stats.memory_iteration);
        let due = downtimes.and_then(|downtimes| downtimes.due(sample.elapsed, iteration));
        due.map(Action::SetDowntime).into_iter().collect()
    }

    fn decide(&self, sample: &Sample, mode: MigrationMode) -> Option<Action> {
        let without_progress = self.seconds_without_progress(sample.elapsed);
        let exceeded_limit = self.limit.filter(|limit| sample.elapsed.as_secs() > *limit);
        let may_force = self.limits.allow_workload_disruption
            && mode == MigrationMode::PreCopy
            && exceeded_limit.is_some();
        match (may_force, without_progress, exceeded_limit) {
            (true, Some(seconds), _) if self.force_failed => {
                Some(Action::Abort(AbortCause::NoProgress(seconds)))
            }
            (true, _, Some(limit)) => Some(self.force(limit)),
            (_, Some(seconds), _) => Some(Action::Abort(AbortCause::NoProgress(seconds))),
            (_, None, Some(limit)) => Some(Action::Abort(AbortCause::Limit(limit))),
            (_, None, None) => None,
        }
    }

    fn observe_progress(&mut self, sample: &Sample) {
        let (Some(stats), Some(remaining)) = (&sample.stats, sample.remaining()) else {
            return;
        };
        if self.phase.begins(stats) {
            self.smallest = None;
        }
        if self.smallest.is_none_or(|smallest| remaining < smallest) {
            self.smallest = Some(remaining);
            self.progress_at = sample.elapsed;
        }
    }

    fn seconds_without_progress(&self, now: Duration) -> Option<u64> {
        let seconds = now.saturating_sub(self.progress_at).as_secs();
        let timeout = self.limits.progress_timeout?;
        (seconds > timeout).then_some(seconds)
    }

    /// The action that completes the migration by force.
    fn force(&self, limit: u64) -> Action {
        if self.limits.may_post_copy() {
            return Action::StartPostCopy;
        }
        if self.limits.has_host_devices {
            let downtime = limit.saturating_mul(2).saturating_mul(1000);
            return Action::SetMaxDowntime(downtime.min(MAX_DOWNTIME_MS));
        }
        Action::Suspend
    }

    pub(super) fn observe_outcome(&mut self, action: Action, elapsed: Duration, succeeded: bool) {
        match action {
            Action::Abort(_) => {}
            Action::SetDowntime(_) if !succeeded => {}
            Action::SetDowntime(value) => {
                if let Some(downtimes) = &mut self.downtimes {
                    downtimes.is_set(value, elapsed);
                }
            }
            _ if !succeeded => self.force_failed = true,
            Action::StartPostCopy => {}
            Action::Suspend | Action::SetMaxDowntime(_) => {
                self.limit = self.limit.map(|limit| limit.saturating_mul(2));
            }
        }
    }
}
