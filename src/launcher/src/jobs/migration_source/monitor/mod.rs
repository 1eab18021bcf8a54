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

mod downtime_ramp;
mod migration_limits;
mod stall_detector;
#[cfg(test)]
mod tests;
mod timeouts;

use std::fmt;
use std::time::Duration;

use kubevirt_api::migration_metadata_values::mode;
use libvirt::JobStats;

pub(super) use migration_limits::MigrationLimits;

use stall_detector::StallWatch;
use timeouts::Timeouts;

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
