//! When a migration is completed by force, and when it is aborted. Pure; the rules and numbers are KubeVirt's.
//!
//! ```text
//!                    limit, disruption allowed          success of the action
//!   [PreCopy] ────────▶ StartPostCopy ────────────────────▶ [PostCopy], never aborted by a rule
//!       │     └───────▶ Suspend, SetMaxDowntime ──────────▶ [Paused], the limit is doubled
//!       ├─ no progress, limit, cancel ─▶ Abort
//!       └─ with a stall detector: [`stall_detector`] decides instead of the timeouts
//! ```
//! The loop of the job (`../migration_task.rs`) feeds samples, carries the actions out in order, and reports the outcome of each
//! before the next sample.

mod stall_detector;
#[cfg(test)]
mod tests;
mod timeouts;

use std::fmt;
use std::time::Duration;

use kubevirt_api::migration_metadata::mode;
use kubevirt_api::migration_options::{MigrationOptions, StallDetectorOptions};
use libvirt::JobStats;

use stall_detector::StallWatch;
use timeouts::Timeouts;

/// How often the job takes a sample.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(400);
/// The longest downtime that QEMU accepts, in milliseconds.
const LONGEST_DOWNTIME: u64 = 2_000_000;

/// The rules of one migration.
#[derive(Debug, Clone, Copy)]
pub(super) struct MigrationLimits {
    /// Seconds without progress after which the migration is aborted.
    progress_timeout: Option<u64>,
    /// Seconds for the whole migration.
    completion_timeout: Option<u64>,
    allow_workload_disruption: bool,
    allow_post_copy: bool,
    max_downtime: u64,
    /// The downtime to begin with, in milliseconds; `None` for QEMU's own.
    first_downtime: Option<u64>,
    stall: Option<StallDetectorOptions>,
    /// Host devices are assigned to the guest: post-copy cannot move them, and they go on writing when only the
    /// processors are stopped.
    has_host_devices: bool,
}

impl MigrationLimits {
    /// The rules of a migration of this size, in gigabytes of 10⁹ bytes.
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
            first_downtime: None,
            stall: options.stall_detector_options,
            has_host_devices,
        }
    }

    /// The rules with the longest downtime that a hook has set.
    pub(super) fn with_first_downtime(self, first_downtime: Option<u64>) -> MigrationLimits {
        MigrationLimits {
            first_downtime,
            ..self
        }
    }

    /// Whether iterations are watched, for which libvirt's events are needed.
    pub(super) fn watches_iterations(&self) -> bool {
        self.stall.is_some()
    }

    /// The rules when libvirt tells of no iterations: the two timeouts.
    pub(super) fn without_iterations(self) -> MigrationLimits {
        MigrationLimits {
            stall: None,
            ..self
        }
    }

    fn may_post_copy(&self) -> bool {
        self.allow_post_copy && !self.has_host_devices
    }
}

/// What is known at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Since the beginning, the preparation of the target included.
    pub(super) elapsed: Duration,
    /// libvirt's statistics; `None` when there is no answer, or no job.
    pub(super) stats: Option<JobStats>,
    /// The guest is paused for the migration.
    pub(super) is_paused: bool,
    /// An iteration over the guest's memory begins.
    pub(super) begins_iteration: bool,
}

impl Sample {
    /// The bytes that are left; `None` before the transfer, when libvirt counts nothing and reports zeros.
    fn remaining(&self) -> Option<u64> {
        let stats = self.stats.filter(|stats| stats.data_total != Some(0))?;
        stats.data_remaining
    }
}

/// Something happened.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input {
    /// A sample was taken.
    Sample(Sample),
    /// The migration is to be cancelled.
    Cancel,
    /// The action succeeded or failed.
    Outcome {
        /// The action.
        action: Action,
        /// Since the beginning.
        elapsed: Duration,
        /// Whether it succeeded.
        succeeded: bool,
    },
}

/// What the job has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Abort libvirt's job.
    Abort(Cause),
    /// Let the guest continue on the target.
    StartPostCopy,
    /// Stop the guest's processors.
    Suspend,
    /// Set the maximum downtime in milliseconds, from the beginning.
    SetFirstDowntime(u64),
    /// Raise the maximum downtime to this many milliseconds, so that the migration completes.
    SetMaxDowntime(u64),
}

/// Why a migration is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// virt-handler, or the end of the VM.
    Cancelled,
    /// Nothing was transferred for this many seconds.
    NoProgress(u64),
    /// It is not complete after this many seconds.
    Limit(u64),
    /// The downtime would be longer than allowed, in milliseconds.
    Downtime(u64),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Cancelled => write!(f, "it was cancelled"),
            Cause::NoProgress(seconds) => {
                write!(
                    f,
                    "nothing was transferred for {seconds} s; is the network up?"
                )
            }
            Cause::Limit(seconds) => write!(f, "it was not complete after {seconds} s"),
            Cause::Downtime(milliseconds) => write!(
                f,
                "the guest writes faster than memory is sent, and completing would stop it for {milliseconds} ms"
            ),
        }
    }
}

/// How the guest is migrated now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// It runs on the source.
    #[default]
    PreCopy,
    /// It runs on the target.
    PostCopy,
    /// It is paused.
    Paused,
}

impl Mode {
    /// KubeVirt's word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Mode::PreCopy => mode::PRE_COPY,
            Mode::PostCopy => mode::POST_COPY,
            Mode::Paused => mode::PAUSED,
        }
    }
}

/// The policy and what it remembers.
#[derive(Debug)]
pub(super) struct Monitor {
    limits: MigrationLimits,
    mode: Mode,
    is_aborting: bool,
    rules: Rules,
}

#[derive(Debug)]
enum Rules {
    Timeouts(Box<Timeouts>),
    Stall(Box<StallWatch>),
}

impl Monitor {
    /// The beginning.
    pub(super) fn new(limits: MigrationLimits) -> Monitor {
        Monitor {
            mode: Mode::PreCopy,
            is_aborting: false,
            rules: match limits.stall {
                Some(options) => Rules::Stall(Box::new(StallWatch::new(limits, options))),
                None => Rules::Timeouts(Box::new(Timeouts::new(limits))),
            },
            limits,
        }
    }

    /// How the guest is migrated.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// What to do now, in this order.
    pub(super) fn observe(&mut self, input: Input) -> Vec<Action> {
        let actions = match input {
            Input::Sample(sample) => self.observe_sample(&sample),
            Input::Cancel if !self.is_aborting => vec![Action::Abort(Cause::Cancelled)],
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
        let aborts = actions
            .iter()
            .any(|action| matches!(action, Action::Abort(_)));
        self.is_aborting |= aborts;
        actions
    }

    fn observe_sample(&mut self, sample: &Sample) -> Vec<Action> {
        let (mode, is_aborting) = (self.mode, self.is_aborting);
        match &mut self.rules {
            Rules::Timeouts(timeouts) => timeouts.observe(sample, mode, is_aborting),
            Rules::Stall(stall) => {
                if sample.is_paused && mode == Mode::PreCopy {
                    self.mode = Mode::Paused;
                }
                stall.observe(sample, self.mode, is_aborting)
            }
        }
    }

    fn observe_outcome(&mut self, action: Action, elapsed: Duration, succeeded: bool) {
        match action {
            // It may have come too early.
            Action::Abort(_) if !succeeded => self.is_aborting = false,
            Action::StartPostCopy if succeeded => self.mode = Mode::PostCopy,
            Action::Suspend if succeeded => self.mode = Mode::Paused,
            // Without a stall detector the downtime is raised only instead of a suspension.
            Action::SetMaxDowntime(_) if succeeded && self.limits.stall.is_none() => {
                self.mode = Mode::Paused;
            }
            _ => {}
        }
        match &mut self.rules {
            Rules::Timeouts(timeouts) => timeouts.observe_outcome(action, succeeded),
            Rules::Stall(stall) => stall.observe_outcome(action, elapsed, succeeded),
        }
    }
}
