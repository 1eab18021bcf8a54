//! Monitors a migration: decides when it is completed by force, and when it is aborted. Pure; the rules and numbers are
//! KubeVirt's.
//!
//! ```text
//!                    limit, disruption allowed          success of the action
//!   [PreCopy] ────────▶ StartPostCopy ────────────────────▶ [PostCopy], never aborted by a rule
//!       │     └───────▶ Suspend, SetMaxDowntime ──────────▶ [Paused], the limit is doubled
//!       ├─ no progress, limit, cancel ─▶ Abort
//!       └─ with a stall detector: [`stall_detector`] decides instead of the timeouts
//! ```
//! The loop of the job (`../migration_task/migrate_call_watch.rs`) feeds samples, carries out the actions in order, and
//! reports the outcome of each before the next sample.

mod stall_detector;

use std::fmt;
use std::time::Duration;

use kubevirt_api::migration_metadata_values::mode;
use kubevirt_api::migration_options::{DowntimeTuning, MigrationOptions, StallDetectorOptions};
use libvirt::JobStats;

use stall_detector::StallWatch;

/// How often the job takes a sample.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(400);
/// Maximum downtime that QEMU accepts, in milliseconds.
const MAX_DOWNTIME_MS: u64 = 2_000_000;

/// The state of the migration at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// The time since the beginning, including the preparation of the target.
    pub(super) elapsed: Duration,
    /// libvirt's statistics; `None` if there is no answer or no job.
    pub(super) stats: Option<JobStats>,
    /// Whether the guest is paused for the migration.
    pub(super) is_paused: bool,
    /// Whether an iteration over the guest's memory begins.
    pub(super) begins_iteration: bool,
}

impl Sample {
    /// The remaining bytes; `None` before the transfer, when libvirt reports zeros.
    fn remaining(&self) -> Option<u64> {
        let stats = self.stats.filter(|stats| stats.data_total != Some(0))?;
        stats.data_remaining
    }
}

/// An input of the monitor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input {
    /// A sample was taken.
    Sample(Sample),
    /// The migration is to be cancelled.
    Cancel,
    /// An action succeeded or failed.
    Outcome {
        /// The action.
        action: Action,
        /// The time since the beginning.
        elapsed: Duration,
        /// Whether it succeeded.
        succeeded: bool,
    },
}

/// What the job has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Abort libvirt's job.
    Abort(AbortCause),
    /// Let the guest continue on the target.
    StartPostCopy,
    /// Pause the guest's vCPUs.
    Suspend,
    /// Set the maximum downtime, in milliseconds, with which the migration begins or goes on.
    SetDowntime(u64),
    /// Raise the maximum downtime to this many milliseconds, so that the migration completes.
    SetMaxDowntime(u64),
}

/// Why a migration is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbortCause {
    /// virt-handler has cancelled the migration, or the VM ends.
    Cancelled,
    /// Nothing was transferred for this many seconds.
    NoProgress(u64),
    /// The migration is not complete after this many seconds.
    Limit(u64),
    /// The downtime would be this many milliseconds, which is longer than allowed.
    Downtime(u64),
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbortCause::Cancelled => write!(f, "it was cancelled"),
            AbortCause::NoProgress(seconds) => {
                write!(
                    f,
                    "nothing was transferred for {seconds} s; is the network up?"
                )
            }
            AbortCause::Limit(seconds) => write!(f, "it was not complete after {seconds} s"),
            AbortCause::Downtime(milliseconds) => write!(
                f,
                "the guest writes faster than memory is sent, and completing would stop it for {milliseconds} ms"
            ),
        }
    }
}

/// The phase of the migration, as KubeVirt names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum MigrationMode {
    /// The guest runs on the source.
    #[default]
    PreCopy,
    /// The guest runs on the target.
    PostCopy,
    /// The guest is paused.
    Paused,
}

impl MigrationMode {
    /// The mode's name in KubeVirt.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            MigrationMode::PreCopy => mode::PRE_COPY,
            MigrationMode::PostCopy => mode::POST_COPY,
            MigrationMode::Paused => mode::PAUSED,
        }
    }
}

/// Decides on actions from samples.
#[derive(Debug)]
pub(super) struct Monitor {
    limits: MigrationLimits,
    mode: MigrationMode,
    is_aborting: bool,
    rules: Rules,
}

#[derive(Debug)]
enum Rules {
    Timeouts(Box<Timeouts>),
    Stall(Box<StallWatch>),
}

impl Monitor {
    /// The monitor of a migration that begins.
    pub(super) fn new(limits: MigrationLimits) -> Monitor {
        Monitor {
            mode: MigrationMode::PreCopy,
            is_aborting: false,
            rules: match limits.stall {
                Some(options) => Rules::Stall(Box::new(StallWatch::new(limits, options))),
                None => Rules::Timeouts(Box::new(Timeouts::new(limits))),
            },
            limits,
        }
    }

    /// The current mode.
    pub(super) fn mode(&self) -> MigrationMode {
        self.mode
    }

    /// Takes in an input. Returns the actions to carry out, in order.
    pub(super) fn observe(&mut self, input: Input) -> Vec<Action> {
        let actions = match input {
            Input::Sample(sample) => self.observe_sample(&sample),
            Input::Cancel if !self.is_aborting => vec![Action::Abort(AbortCause::Cancelled)],
            Input::Cancel => Vec::new(),
            Input::Outcome {
                action,
                elapsed,
                succeeded,
            } => {
                self.observe_outcome(action, elapsed, succeeded);
                Vec::new()
            }
        };
        let has_abort = actions
            .iter()
            .any(|action| matches!(action, Action::Abort(_)));
        self.is_aborting |= has_abort;
        actions
    }

    fn observe_sample(&mut self, sample: &Sample) -> Vec<Action> {
        let (mode, is_aborting) = (self.mode, self.is_aborting);
        match &mut self.rules {
            Rules::Timeouts(timeouts) => timeouts.observe(sample, mode, is_aborting),
            Rules::Stall(stall) => {
                if sample.is_paused && mode == MigrationMode::PreCopy {
                    self.mode = MigrationMode::Paused;
                }
                stall.observe(sample, self.mode, is_aborting)
            }
        }
    }

    fn observe_outcome(&mut self, action: Action, elapsed: Duration, succeeded: bool) {
        match action {
            // The abort may have come too early, and can be repeated.
            Action::Abort(_) if !succeeded => self.is_aborting = false,
            Action::StartPostCopy if succeeded => self.mode = MigrationMode::PostCopy,
            Action::Suspend if succeeded => self.mode = MigrationMode::Paused,
            // Without a stall detector the downtime is raised only instead of a suspension.
            Action::SetMaxDowntime(_) if succeeded && self.limits.stall.is_none() => {
                self.mode = MigrationMode::Paused;
            }
            _ => {}
        }
        match &mut self.rules {
            Rules::Timeouts(timeouts) => timeouts.observe_outcome(action, elapsed, succeeded),
            Rules::Stall(stall) => stall.observe_outcome(action, elapsed, succeeded),
        }
    }
}

/// The limits of one migration.
#[derive(Debug, Clone, Copy)]
pub(super) struct MigrationLimits {
    /// Seconds without progress after which the migration is aborted.
    progress_timeout: Option<u64>,
    /// The timeout of the whole migration, in seconds.
    completion_timeout: Option<u64>,
    allow_workload_disruption: bool,
    allow_post_copy: bool,
    /// The maximum downtime in milliseconds.
    max_downtime: u64,
    /// The maximum downtimes of a migration without a stall detector; `None` for QEMU's default.
    downtimes: Option<DowntimeRamp>,
    /// The options of the stall detector, which replaces the timeouts.
    stall: Option<StallDetectorOptions>,
    /// Whether host devices are assigned to the guest: post-copy cannot move them, and they continue to write when only
    /// the vCPUs are paused.
    has_host_devices: bool,
}

impl MigrationLimits {
    /// The limits of a migration of this size, in gigabytes of 10⁹ bytes.
    pub(super) fn new(
        options: &MigrationOptions,
        gigabytes: u64,
        has_host_devices: bool,
    ) -> MigrationLimits {
        let positive = |seconds: i64| u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        let per_gigabyte = positive(options.completion_timeout_per_gib);
        MigrationLimits {
            progress_timeout: positive(options.progress_timeout),
            completion_timeout: per_gigabyte
                .map(|seconds| seconds.saturating_mul(gigabytes))
                .filter(|timeout| *timeout > 0),
            allow_workload_disruption: options.allow_workload_disruption,
            allow_post_copy: options.allow_post_copy,
            max_downtime: options.max_downtime_ms,
            downtimes: options
                .downtime_tuning
                .map(|tuning| DowntimeRamp::tuned(tuning, options.max_downtime_ms)),
            stall: options.stall_detector_options,
            has_host_devices,
        }
    }

    /// The limits with the maximum downtime that a hook has set, if any, in place of the cluster's.
    pub(super) fn with_hooked_downtime(self, hooked: Option<u64>) -> MigrationLimits {
        MigrationLimits {
            downtimes: hooked.map(DowntimeRamp::constant).or(self.downtimes),
            ..self
        }
    }

    /// Whether the rules need libvirt's events of iterations.
    pub(super) fn watches_iterations(&self) -> bool {
        self.stall.is_some()
    }

    /// The limits without a stall detector, for when libvirt sends no events of iterations.
    pub(super) fn without_iterations(self) -> MigrationLimits {
        MigrationLimits {
            stall: None,
            ..self
        }
    }

    /// Whether the guest may be continued on the target before all its memory is there.
    fn may_post_copy(&self) -> bool {
        self.allow_post_copy && !self.has_host_devices
    }
}

/// Decides by the two timeouts.
#[derive(Debug)]
struct Timeouts {
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
    fn new(limits: MigrationLimits) -> Timeouts {
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

    fn observe(&mut self, sample: &Sample, mode: MigrationMode, is_aborting: bool) -> Vec<Action> {
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

    fn observe_outcome(&mut self, action: Action, elapsed: Duration, succeeded: bool) {
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

/// KubeVirt's defaults.
const FIRST_MS: u64 = 150;
const STEPS: u64 = 7;
const FIRST_ITERATION: u64 = 3;
const COOLDOWN: Duration = Duration::from_secs(10);

/// The maximum downtimes of a migration, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct DowntimeRamp {
    first: u64,
    limit: u64,
    step: u64,
    /// The iteration over the guest's memory before which there is no step.
    first_iteration: u64,
    /// The time between two steps.
    cooldown: Duration,
    /// The value that QEMU has, and when it was set, since the beginning.
    set: Option<(u64, Duration)>,
}

impl DowntimeRamp {
    /// One value, without steps.
    fn constant(value: u64) -> Self {
        Self {
            first: value,
            limit: value,
            step: 0,
            first_iteration: 0,
            cooldown: Duration::ZERO,
            set: None,
        }
    }

    /// The steps that the cluster's configuration asks for, up to `limit`.
    fn tuned(tuning: DowntimeTuning, limit: u64) -> Self {
        let positive = |value: Option<i32>, default| {
            value.map_or(default, |value| u64::try_from(value).unwrap_or(0).max(1))
        };
        let natural = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        let first = natural(tuning.initial_ms).unwrap_or(FIRST_MS).min(limit);
        Self {
            first,
            limit,
            step: ((limit - first) / positive(tuning.steps, STEPS)).max(1),
            first_iteration: natural(tuning.start_after_iteration).unwrap_or(FIRST_ITERATION),
            cooldown: Duration::from_secs(positive(tuning.cooldown_seconds, COOLDOWN.as_secs())),
            set: None,
        }
    }

    /// The value to set now, if any.
    fn due(&self, elapsed: Duration, iteration: Option<u64>) -> Option<u64> {
        let Some((value, set_at)) = self.set else {
            return Some(self.first);
        };
        let is_due = value < self.limit
            && iteration? >= self.first_iteration
            && elapsed.saturating_sub(set_at) >= self.cooldown;
        is_due.then(|| value.saturating_add(self.step).min(self.limit))
    }

    /// QEMU has this value now.
    fn is_set(&mut self, value: u64, elapsed: Duration) {
        self.set = Some((value, elapsed));
    }
}

#[cfg(test)]
mod tests;
