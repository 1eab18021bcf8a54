//! The steps of virt-handler in order, and which of them a correct launcher never causes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::decision_rules::{Decision, Phase};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A decision from VMI and domain.
    Decided {
        /// What to do.
        decision: Decision,
        /// The VMI's phase.
        phase: Option<Phase>,
        /// The domain, `Status/Reason` or `-`.
        domain: String,
    },
    /// A call of the launcher.
    Called {
        /// Which RPC.
        method: &'static str,
        /// How long the answer took.
        took: Duration,
        /// The error, if it failed.
        error: Option<String>,
    },
    /// A new phase of the VMI.
    Phase(Phase),
    /// A delete for a VM that nobody had ended.
    EarlyDelete {
        /// The launcher refused.
        refused: bool,
        /// virt-handler's process ended in this VM's life.
        restarted: bool,
    },
    /// A stale domain was dropped: same name, another UID than the VMI's.
    Stale {
        /// The domain's.
        uid: String,
    },
    /// A failure; the key is queued again.
    Failed(String),
    /// virt-handler's process ended.
    Stopped,
    /// virt-handler started, and found this domain.
    Started {
        /// `Status/Reason` or `-`.
        domain: String,
    },
}

impl Step {
    /// Why this step must not happen, if it must not.
    pub fn violation(&self) -> Option<String> {
        match self {
            // A virt-handler that starts during the VM's start sees a domain that is not alive yet. The launcher must refuse
            // its delete.
            Step::EarlyDelete {
                refused: true,
                restarted: true,
            } => None,
            Step::EarlyDelete { refused, .. } => Some(format!(
                "early delete: the domain of a VM that nobody ended was deleted (refused: {refused})"
            )),
            Step::Stale { uid } => Some(format!("stale vmi '{uid}'")),
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = self.violation() {
            return write!(formatter, "{fault}");
        }
        match self {
            Step::Decided {
                decision,
                phase: Some(phase),
                domain,
            } => write!(formatter, "{phase:?}, domain {domain}: {decision:?}"),
            Step::Decided {
                decision, domain, ..
            } => write!(formatter, "no VMI, domain {domain}: {decision:?}"),
            Step::Called {
                method,
                took,
                error,
            } => {
                write!(formatter, "{method} in {} ms", took.as_millis())?;
                error
                    .iter()
                    .try_for_each(|error| write!(formatter, ": {error}"))
            }
            Step::Phase(phase) => write!(formatter, "the VMI is {phase:?}"),
            Step::Failed(error) => write!(formatter, "again, for {error}"),
            Step::Stopped => write!(formatter, "virt-handler ended"),
            Step::Started { domain } => write!(formatter, "virt-handler started, domain {domain}"),
            other => write!(formatter, "{other:?}"),
        }
    }
}

/// A step and its time, since the start of virt-handler.
#[derive(Clone, Debug)]
pub struct StepEntry {
    /// When.
    pub at: Duration,
    /// What.
    pub step: Step,
}

/// The steps for all VMs, one VM after the other.
pub(in crate::virt_handler) type Steps = Arc<watch::Sender<Vec<StepEntry>>>;

/// The steps for one VM.
#[derive(Debug)]
pub(super) struct StepLog {
    begin: Instant,
    steps: Steps,
    /// The number of steps before this VM.
    before: usize,
}

impl StepLog {
    pub(super) fn new(begin: Instant, steps: Steps) -> StepLog {
        let before = steps.borrow().len();
        StepLog {
            begin,
            steps,
            before,
        }
    }

    pub(super) fn add(&self, step: Step) {
        let at = self.begin.elapsed();
        self.steps
            .send_modify(|steps| steps.push(StepEntry { at, step }));
    }

    pub(super) fn was_restarted(&self) -> bool {
        let steps = self.steps.borrow();
        let mut own = steps.iter().skip(self.before);
        own.any(|entry| entry.step == Step::Stopped)
    }

    /// Whether the launcher refused the last Sync.
    pub(super) fn sync_was_refused(&self) -> bool {
        let steps = self.steps.borrow();
        let own = steps.iter().skip(self.before);
        let last = own.rev().find_map(|entry| match &entry.step {
            Step::Called {
                method: "SyncVirtualMachine",
                error,
                ..
            } => Some(
                error
                    .as_ref()
                    .is_some_and(|error| error.starts_with("refused")),
            ),
            _ => None,
        });
        last == Some(true)
    }
}
