//! The two timeouts: for progress, and for the whole migration.

use std::time::Duration;

use libvirt::JobStats;

use super::{Action, Cause, LONGEST_DOWNTIME, MigrationLimits, Mode, Sample};

/// The timeouts and what they are measured by.
#[derive(Debug)]
pub(super) struct Timeouts {
    limits: MigrationLimits,
    limit: Option<u64>,
    /// The smallest remainder of this phase. A remainder that grows and shrinks again within a phase is no progress.
    smallest: Option<u64>,
    phase: Phase,
    progress_at: Duration,
    /// libvirt has refused to complete the migration by force, which it does before the transfer.
    force_failed: bool,
    /// The downtime that QEMU is yet to be given.
    first_downtime: Option<u64>,
}

/// What is transferred. Each phase begins with a larger remainder: libvirt copies disks first and counts memory when
/// that is done, and a pass over the guest's memory sends again what the guest has written meanwhile.
#[derive(Debug, Default)]
struct Phase {
    counts_memory: bool,
    memory_iteration: Option<u64>,
}

impl Phase {
    /// Whether a phase begins with this sample.
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
            first_downtime: limits.first_downtime,
        }
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        mode: Mode,
        is_aborting: bool,
    ) -> Vec<Action> {
        self.observe_progress(sample);
        // The guest runs on the target: an abort would end it.
        if mode == Mode::PostCopy || is_aborting {
            return Vec::new();
        }
        let mut actions = self.begin_with_downtime(sample, mode);
        actions.extend(self.decide(sample, mode));
        actions
    }

    /// libvirt accepts a downtime once data is transferred.
    fn begin_with_downtime(&self, sample: &Sample, mode: Mode) -> Vec<Action> {
        let downtime = self
            .first_downtime
            .filter(|_| mode == Mode::PreCopy && sample.remaining().is_some());
        downtime.map(Action::SetFirstDowntime).into_iter().collect()
    }

    fn decide(&self, sample: &Sample, mode: Mode) -> Option<Action> {
        let stuck = self.seconds_without_progress(sample.elapsed);
        let late = self.limit.filter(|limit| sample.elapsed.as_secs() > *limit);
        let may_force =
            self.limits.allow_workload_disruption && mode == Mode::PreCopy && late.is_some();
        match (may_force, stuck, late) {
            (true, Some(seconds), _) if self.force_failed => {
                Some(Action::Abort(Cause::NoProgress(seconds)))
            }
            (true, _, Some(limit)) => Some(self.force(limit)),
            (_, Some(seconds), _) => Some(Action::Abort(Cause::NoProgress(seconds))),
            (_, None, Some(limit)) => Some(Action::Abort(Cause::Limit(limit))),
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

    fn force(&self, limit: u64) -> Action {
        if self.limits.may_post_copy() {
            return Action::StartPostCopy;
        }
        if self.limits.has_host_devices {
            let downtime = limit.saturating_mul(2).saturating_mul(1000);
            return Action::SetMaxDowntime(downtime.min(LONGEST_DOWNTIME));
        }
        Action::Suspend
    }

    pub(super) fn observe_outcome(&mut self, action: Action, succeeded: bool) {
        match action {
            Action::Abort(_) => {}
            Action::SetFirstDowntime(_) if !succeeded => {}
            Action::SetFirstDowntime(_) => self.first_downtime = None,
            _ if !succeeded => self.force_failed = true,
            Action::StartPostCopy => {}
            Action::Suspend | Action::SetMaxDowntime(_) => {
                self.limit = self.limit.map(|limit| limit.saturating_mul(2));
            }
        }
    }
}
