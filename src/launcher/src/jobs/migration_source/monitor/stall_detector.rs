//! The stall detector: it recognizes from the iterations over the guest's memory that a migration does not converge,
//! and then completes the migration at a moment when little remains to be sent.
//!
//! ```text
//!   [converging] ── the remainder has not shrunk within the window ──▶ [stalled: acceptable remainder]
//!   [stalled] ── an iteration with about the acceptable remainder ──▶ switchover or abort
//!       └──────── patience over ──▶ a larger remainder is acceptable, the patience shrinks
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use kubevirt_api::migration_options::StallDetectorOptions;

use super::{AbortCause, Action, MAX_DOWNTIME_MS, MigrationLimits, MigrationMode, Sample};

/// QEMU's default maximum downtime in milliseconds. It is set first, so that a migration that converges has no longer
/// downtime.
const DEFAULT_DOWNTIME_MS: u64 = 300;

/// The beginning of an iteration over the guest's memory.
#[derive(Debug, Clone, Copy, Default)]
struct Iteration {
    elapsed_ms: u64,
    remaining: u64,
}

/// Decides by the stall detector's rules.
#[derive(Debug)]
pub(super) struct StallWatch {
    limits: MigrationLimits,
    options: StallDetectorOptions,
    /// The timeout of the whole migration, in seconds.
    limit: Option<u64>,
    /// The deadline of the switchover, in seconds since the beginning.
    switchover_deadline: Option<u64>,
    /// The timeout that applies once the requested downtime is set.
    limit_after_downtime: Option<u64>,
    /// Whether the first downtime is set.
    is_downtime_set: bool,
    window: RemainderWindow,
    /// Set when a stall was recognized.
    acceptable: Option<AcceptableRemainder>,
    /// Smoothed bandwidth in bytes per second.
    bandwidth: Option<f64>,
    /// The last exact remainder.
    last: Iteration,
    is_switching_over: bool,
}

impl StallWatch {
    pub(super) fn new(limits: MigrationLimits, options: StallDetectorOptions) -> StallWatch {
        let window_ms = options.stall_progress_timeout.saturating_mul(1000);
        StallWatch {
            limits,
            options,
            limit: limits.completion_timeout,
            switchover_deadline: limits.completion_timeout,
            limit_after_downtime: None,
            is_downtime_set: false,
            window: RemainderWindow::new(window_ms),
            acceptable: None,
            bandwidth: None,
            last: Iteration::default(),
            is_switching_over: false,
        }
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample,
        mode: MigrationMode,
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
        Action::SetDowntime(self.limits.max_downtime.min(DEFAULT_DOWNTIME_MS))
    }

    fn observe_stats(&mut self, sample: &Sample, mode: MigrationMode) -> Option<Action> {
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
        // The remainder is exact only at the beginning of an iteration, and while the guest does not write here.
        if mode != MigrationMode::PreCopy {
            self.last = iteration;
        } else if let Some(bandwidth) = stats.memory_bps {
            self.observe_bandwidth(bandwidth);
        }
        None
    }

    #[expect(clippy::cast_precision_loss, reason = "a bandwidth")]
    fn observe_bandwidth(&mut self, sample: u64) {
        let (weight, sample) = (self.options.ewma_alpha, sample as f64);
        let smoothed = match self.bandwidth {
            Some(previous) => weight * sample + (1.0 - weight) * previous,
            None => sample,
        };
        self.bandwidth = (smoothed > 0.0).then_some(smoothed);
    }

    /// Takes in the beginning of an iteration. Returns whether the migration is stalled.
    fn observe_iteration(&mut self, iteration: Iteration) -> bool {
        if self.bandwidth.is_none() || self.is_switching_over {
            return false;
        }
        self.window.observe(iteration);
        if let Some(acceptable) = &mut self.acceptable {
            let decay = self.options.patience_window_decay_factor;
            acceptable.add_iteration(iteration, decay);
            return true;
        }
        if !(self.window).is_stalled(iteration.remaining, self.options.stall_margin) {
            return false;
        }
        let smallest = self.window.smallest().unwrap_or(iteration.remaining);
        let patience_ms = self.window.window_ms();
        self.acceptable = Some(AcceptableRemainder::new(smallest, iteration, patience_ms));
        true
    }

    /// The action against the stall at the beginning of an iteration, if the remainder is acceptable.
    fn decide(&self, elapsed: u64) -> Option<Action> {
        let acceptable = self.acceptable.as_ref()?.bytes();
        let acceptable = scaled(acceptable, 1.0 + self.options.stall_margin);
        if self.options.search_local_minima && self.last.remaining > acceptable {
            return None;
        }
        let downtime = self.expected_downtime()?;
        if !self.fits(elapsed, downtime) {
            return None;
        }
        Some(match self.limits.allow_workload_disruption {
            true if self.limits.may_post_copy() => Action::StartPostCopy,
            true => Action::SetMaxDowntime(MAX_DOWNTIME_MS),
            false if downtime <= self.tolerated_downtime() => {
                Action::SetMaxDowntime(self.limits.max_downtime)
            }
            false => Action::Abort(AbortCause::Downtime(downtime)),
        })
    }

    fn tolerated_downtime(&self) -> u64 {
        let factor = self.options.precopy_possible_factor.max(1.0);
        scaled(self.limits.max_downtime, factor)
    }

    /// How long sending the remainder takes, in milliseconds.
    fn expected_downtime(&self) -> Option<u64> {
        let per_ms = self.bandwidth? / 1000.0;
        Some(scaled(self.last.remaining, 1.0 / per_ms))
    }

    /// Whether the remainder can be sent before the last deadline. It cannot if the network has just failed.
    fn fits(&self, elapsed: u64, downtime: u64) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        let deadline = scaled(limit, self.options.completion_timeout_factor);
        let left = deadline.saturating_sub(elapsed).saturating_mul(1000);
        deadline >= elapsed && downtime <= left
    }

    /// The action after the timeout of the migration or the deadline of the switchover.
    fn overdue(&mut self, elapsed: u64, mode: MigrationMode) -> Option<Action> {
        let deadline = match mode {
            MigrationMode::PostCopy => return None,
            MigrationMode::Paused => self.limit,
            MigrationMode::PreCopy => self.switchover_deadline,
        };
        let deadline = deadline.filter(|deadline| elapsed > *deadline)?;
        let fits = self
            .expected_downtime()
            .is_some_and(|downtime| self.fits(elapsed, downtime));
        if self.is_switching_over || !fits {
            return Some(Action::Abort(AbortCause::Limit(deadline)));
        }
        if self.limits.may_post_copy() {
            return Some(Action::StartPostCopy);
        }
        if !self.limits.allow_workload_disruption {
            return Some(Action::Abort(AbortCause::Limit(deadline)));
        }
        let factor = self.options.completion_timeout_factor;
        self.limit_after_downtime = self.limit.map(|limit| scaled(limit, factor));
        Some(Action::SetMaxDowntime(MAX_DOWNTIME_MS))
    }

    pub(super) fn observe_outcome(&mut self, action: Action, elapsed: Duration, succeeded: bool) {
        match action {
            // A refused abort does not change a switchover and its deadline.
            Action::Abort(_) => {}
            Action::SetDowntime(_) => self.is_downtime_set = succeeded,
            Action::SetMaxDowntime(_) if succeeded => {
                self.limit = self.limit_after_downtime.take().or(self.limit);
                // QEMU may stop the guest later, or never, so the switchover has a deadline.
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "saturates: a measure, not a count"
)]
fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor) as u64
}

/// The smallest remainders at the beginning of iterations, inside the window and before it.
#[derive(Debug)]
struct RemainderWindow {
    /// The length of the window in milliseconds.
    window_ms: u64,
    /// IterationEvents inside the window, each with a smaller remainder than the one before.
    recent: VecDeque<Iteration>,
    /// The iteration with the smallest remainder before the window.
    earlier: Option<Iteration>,
}

impl RemainderWindow {
    /// An empty window of this length.
    fn new(window_ms: u64) -> RemainderWindow {
        RemainderWindow {
            window_ms,
            recent: VecDeque::new(),
            earlier: None,
        }
    }

    /// The length of the window in milliseconds.
    fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Moves the window to this iteration, and adds the iteration.
    fn observe(&mut self, iteration: Iteration) {
        while let Some(oldest) = self.recent.front().copied() {
            if iteration.elapsed_ms.saturating_sub(oldest.elapsed_ms) < self.window_ms {
                break;
            }
            self.recent.pop_front();
            let known = self.earlier.map(|earlier| earlier.remaining);
            if known.is_none_or(|known| oldest.remaining < known) {
                self.earlier = Some(oldest);
            }
        }
        // A larger remainder than an earlier one is never the smallest, so it is not stored.
        let before = self.recent.back().map(|last| last.remaining);
        let is_above = self
            .earlier
            .is_some_and(|earlier| iteration.remaining > earlier.remaining);
        if !is_above && before.is_none_or(|before| iteration.remaining < before) {
            self.recent.push_back(iteration);
        }
    }

    /// Whether the remainder is not smaller than the smallest before the window by this fraction of it.
    fn is_stalled(&self, remaining: u64, margin: f64) -> bool {
        self.earlier
            .is_some_and(|earlier| remaining >= scaled(earlier.remaining, 1.0 - margin))
    }

    /// The smallest remainder, inside the window or before it.
    fn smallest(&self) -> Option<u64> {
        let iterations = self.recent.iter().chain(&self.earlier);
        iterations.map(|iteration| iteration.remaining).min()
    }
}

/// The remainder that is small enough to complete a stalled migration.
#[derive(Debug)]
struct AcceptableRemainder {
    bytes: u64,
    /// Remainders of iterations since the stall was recognized, without those that became acceptable; the smallest
    /// first.
    remainders: BinaryHeap<Reverse<u64>>,
    /// How long to wait for an acceptable remainder, in milliseconds.
    patience_ms: u64,
    /// When the patience is over, in milliseconds since the beginning of the migration.
    patience_end_ms: u64,
}

impl AcceptableRemainder {
    /// The acceptable remainder of a stall that was recognized at the beginning of `iteration`.
    fn new(bytes: u64, iteration: Iteration, patience_ms: u64) -> AcceptableRemainder {
        AcceptableRemainder {
            bytes,
            remainders: BinaryHeap::new(),
            patience_ms,
            patience_end_ms: iteration.elapsed_ms.saturating_add(patience_ms),
        }
    }

    /// The acceptable remainder in bytes.
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an iteration. When the patience is over, the smallest remainder in the heap becomes the acceptable one, and
    /// the patience is multiplied by `patience_decay`. The new remainder is normally larger than the one before, since
    /// an iteration with a smaller remainder completes the migration.
    fn add_iteration(&mut self, iteration: Iteration, patience_decay: f64) {
        self.remainders.push(Reverse(iteration.remaining));
        if iteration.elapsed_ms < self.patience_end_ms {
            return;
        }
        if let Some(Reverse(next)) = self.remainders.pop() {
            self.bytes = next;
            self.patience_ms = scaled(self.patience_ms, patience_decay);
            self.patience_end_ms = iteration.elapsed_ms.saturating_add(self.patience_ms);
        }
    }
}
