//! The stall detector: it recognizes from the iterations over the guest's memory that a migration does not converge,
//! and completes the migration at a moment at which little is left to send.
//!
//! ```text
//!   [converging] ── the remainder has not shrunk within the window ──▶ [stalled: best]
//!   [stalled] ── an iteration about as good as best ──▶ switchover or abort
//!       └──────── patience over ──▶ best is relaxed, the patience shrinks
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use kubevirt_api::migration_options::StallDetectorOptions;

use super::{Action, Cause, LONGEST_DOWNTIME, MigrationLimits, Mode, Sample};

/// QEMU's own limit, which is set first so that a migration that converges has no longer downtime.
const DEFAULT_DOWNTIME: u64 = 300;

/// The beginning of an iteration.
#[derive(Debug, Clone, Copy, Default)]
struct Iteration {
    elapsed_ms: u64,
    remaining: u64,
}

/// What is known since the stall was recognized.
#[derive(Debug)]
struct Stall {
    /// The remainder that is good enough.
    best: u64,
    /// The remainders since, the smallest first.
    remainders: BinaryHeap<Reverse<u64>>,
    patience_ms: u64,
    relax_at_ms: u64,
}

/// The policy and what it remembers.
#[derive(Debug)]
pub(super) struct StallWatch {
    limits: MigrationLimits,
    options: StallDetectorOptions,
    /// Seconds for the whole migration, and for the switchover.
    limit: Option<u64>,
    switchover_deadline: Option<u64>,
    /// The limit from the moment at which the proposed downtime is set.
    limit_after_downtime: Option<u64>,
    is_downtime_set: bool,
    /// Iterations inside the window, each with a smaller remainder than the one before.
    recent: VecDeque<Iteration>,
    /// The smallest remainder before the window.
    earlier: Option<Iteration>,
    stall: Option<Stall>,
    /// Bytes in a second; smoothed.
    bandwidth: Option<f64>,
    last: Iteration,
    is_switching_over: bool,
}

impl StallWatch {
    pub(super) fn new(limits: MigrationLimits, options: StallDetectorOptions) -> StallWatch {
        StallWatch {
            limits,
            options,
            limit: limits.completion_timeout,
            switchover_deadline: limits.completion_timeout,
            limit_after_downtime: None,
            is_downtime_set: false,
            recent: VecDeque::new(),
            earlier: None,
            stall: None,
            bandwidth: None,
            last: Iteration::default(),
            is_switching_over: false,
        }
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        mode: Mode,
        is_aborting: bool,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if !self.is_downtime_set {
            actions.push(self.first_downtime());
        }
        if is_aborting {
            return actions;
        }
        let decision = self.observe_stats(sample, mode);
        let decision = decision.or_else(|| self.overdue(sample.elapsed.as_secs(), mode));
        self.is_switching_over |=
            decision.is_some_and(|action| !matches!(action, Action::Abort(_)));
        actions.extend(decision);
        actions
    }

    fn first_downtime(&self) -> Action {
        Action::SetFirstDowntime(self.limits.max_downtime.min(DEFAULT_DOWNTIME))
    }

    fn observe_stats(&mut self, sample: &Sample, mode: Mode) -> Option<Action> {
        let stats = sample.stats?;
        let (remaining, elapsed_ms) = (sample.remaining()?, stats.time_elapsed?);
        stats.memory_iteration?;
        let iteration = Iteration {
            elapsed_ms,
            remaining,
        };
        if sample.begins_iteration {
            self.last = iteration;
            let is_stalled = self.observe_iteration(iteration);
            return is_stalled.then(|| self.decide(sample.elapsed.as_secs()))?;
        }
        // The remainder is exact only between iterations, and when the guest does not write here.
        if mode != Mode::PreCopy {
            self.last = iteration;
        } else if let Some(sample) = stats.memory_bps {
            self.observe_bandwidth(sample);
        }
        None
    }

    #[expect(clippy::cast_precision_loss, reason = "a bandwidth")]
    fn observe_bandwidth(&mut self, sample: u64) {
        let (weight, sample) = (self.options.ewma_alpha, sample as f64);
        let smoothed = match self.bandwidth {
            Some(known) => weight * sample + (1.0 - weight) * known,
            None => sample,
        };
        self.bandwidth = (smoothed > 0.0).then_some(smoothed);
    }

    /// Whether the migration is stalled.
    fn observe_iteration(&mut self, iteration: Iteration) -> bool {
        if self.bandwidth.is_none() || self.is_switching_over {
            return false;
        }
        self.move_window(iteration);
        if let Some(stall) = &mut self.stall {
            let decay = self.options.patience_window_decay_factor;
            stall.relax(iteration, decay);
            return true;
        }
        if !self.is_stalled(iteration.remaining) {
            return false;
        }
        let remainders = self.recent.iter().chain(&self.earlier);
        let best = remainders.map(|one| one.remaining).min();
        let patience_ms = self.window_ms();
        self.stall = Some(Stall {
            best: best.unwrap_or(iteration.remaining),
            remainders: BinaryHeap::new(),
            patience_ms,
            relax_at_ms: iteration.elapsed_ms.saturating_add(patience_ms),
        });
        true
    }

    fn window_ms(&self) -> u64 {
        self.options.stall_progress_timeout.saturating_mul(1000)
    }

    fn move_window(&mut self, iteration: Iteration) {
        let window = self.window_ms();
        while let Some(oldest) = self.recent.front().copied() {
            if iteration.elapsed_ms.saturating_sub(oldest.elapsed_ms) < window {
                break;
            }
            self.recent.pop_front();
            let known = self.earlier.map(|earlier| earlier.remaining);
            if known.is_none_or(|known| oldest.remaining < known) {
                self.earlier = Some(oldest);
            }
        }
        // A larger remainder than an earlier one is never the smallest.
        let before = self.recent.back().map(|last| last.remaining);
        let is_above = self
            .earlier
            .is_some_and(|earlier| iteration.remaining > earlier.remaining);
        if !is_above && before.is_none_or(|before| iteration.remaining < before) {
            self.recent.push_back(iteration);
        }
    }

    fn is_stalled(&self, remaining: u64) -> bool {
        let margin = 1.0 - self.options.stall_margin;
        self.earlier
            .is_some_and(|earlier| remaining >= scaled(earlier.remaining, margin))
    }

    /// What to do about the stall at the beginning of an iteration.
    fn decide(&self, elapsed: u64) -> Option<Action> {
        let stall = self.stall.as_ref()?;
        let good_enough = scaled(stall.best, 1.0 + self.options.stall_margin);
        if self.options.search_local_minima && self.last.remaining > good_enough {
            return None;
        }
        let downtime = self.expected_downtime()?;
        if !self.fits(elapsed, downtime) {
            return None;
        }
        Some(match self.limits.allow_workload_disruption {
            true if self.limits.may_post_copy() => Action::StartPostCopy,
            true => Action::SetMaxDowntime(LONGEST_DOWNTIME),
            false if downtime <= self.tolerated_downtime() => {
                Action::SetMaxDowntime(self.limits.max_downtime)
            }
            false => Action::Abort(Cause::Downtime(downtime)),
        })
    }

    fn tolerated_downtime(&self) -> u64 {
        let factor = self.options.precopy_possible_factor.max(1.0);
        scaled(self.limits.max_downtime, factor)
    }

    /// What the remainder takes, in milliseconds.
    fn expected_downtime(&self) -> Option<u64> {
        let per_ms = self.bandwidth? / 1000.0;
        Some(scaled(self.last.remaining, 1.0 / per_ms))
    }

    /// Whether the rest is sent before the last deadline, which it is not when the network has just gone down.
    fn fits(&self, elapsed: u64, downtime: u64) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        let deadline = scaled(limit, self.options.completion_timeout_factor);
        let left = deadline.saturating_sub(elapsed).saturating_mul(1000);
        deadline >= elapsed && downtime <= left
    }

    /// What to do when the limit is over.
    fn overdue(&mut self, elapsed: u64, mode: Mode) -> Option<Action> {
        let deadline = match mode {
            Mode::PostCopy => return None,
            Mode::Paused => self.limit,
            Mode::PreCopy => self.switchover_deadline,
        };
        let deadline = deadline.filter(|deadline| elapsed > *deadline)?;
        let fits = self
            .expected_downtime()
            .is_some_and(|downtime| self.fits(elapsed, downtime));
        if self.is_switching_over || !fits {
            return Some(Action::Abort(Cause::Limit(deadline)));
        }
        if self.limits.may_post_copy() {
            return Some(Action::StartPostCopy);
        }
        if !self.limits.allow_workload_disruption {
            return Some(Action::Abort(Cause::Limit(deadline)));
        }
        let factor = self.options.completion_timeout_factor;
        self.limit_after_downtime = self.limit.map(|limit| scaled(limit, factor));
        Some(Action::SetMaxDowntime(LONGEST_DOWNTIME))
    }

    pub(super) fn observe_outcome(&mut self, action: Action, elapsed: Duration, succeeded: bool) {
        match action {
            // A refused abort leaves a switchover, and its deadline, as they are.
            Action::Abort(_) => {}
            Action::SetFirstDowntime(_) => self.is_downtime_set = succeeded,
            Action::SetMaxDowntime(_) if succeeded => {
                self.limit = self.limit_after_downtime.take().or(self.limit);
                // QEMU may not stop the guest at once, or ever.
                let timeout = self.options.switchover_timeout;
                self.switchover_deadline = Some(elapsed.as_secs().saturating_add(timeout));
            }
            _ if !succeeded => {
                self.is_switching_over = false;
                self.limit_after_downtime = None;
            }
            _ => {}
        }
    }
}

impl Stall {
    fn relax(&mut self, iteration: Iteration, decay: f64) {
        self.remainders.push(Reverse(iteration.remaining));
        if iteration.elapsed_ms < self.relax_at_ms {
            return;
        }
        if let Some(Reverse(next)) = self.remainders.pop() {
            self.best = next;
            self.patience_ms = scaled(self.patience_ms, decay);
            self.relax_at_ms = iteration.elapsed_ms.saturating_add(self.patience_ms);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "saturates: a measure, not a count"
)]
fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor) as u64
}
