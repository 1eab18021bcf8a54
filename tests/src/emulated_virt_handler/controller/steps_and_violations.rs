//! virt-handler's steps, and the violations among them: steps that a correct launcher never causes.

use std::fmt;
use std::time::Duration;

use super::decision_rules::{Decision, Phase};

/// A step of virt-handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A decision from VMI and domain.
    Decided {
        /// The action.
        decision: Decision,
        /// The VMI's phase.
        phase: Option<Phase>,
        /// The domain as `Status/Reason`, or `-`.
        domain: String,
    },
    /// A call of the launcher.
    Called {
        /// The RPC.
        method: &'static str,
        /// How long the call took.
        duration: Duration,
        /// The error, if it failed.
        error: Option<String>,
    },
    /// A new phase of the VMI.
    Phase(Phase),
    /// A delete of a VM that was not ended before.
    EarlyDelete {
        /// Whether the launcher refused the delete.
        refused: bool,
        /// Whether virt-handler's process ended during this VM's life.
        restarted: bool,
    },
    /// A stale domain was dropped: same name, another UID than the VMI's.
    Stale {
        /// The UID of the domain.
        uid: String,
    },
    /// A failed reconcile; the VMI is queued again.
    Failed(String),
    /// virt-handler's process ended.
    Stopped,
    /// virt-handler started.
    Started {
        /// The domain in its cache as `Status/Reason`, or `-`.
        domain: String,
    },
}

impl Step {
    /// Why this step is a violation, if it is one.
    pub fn violation(&self) -> Option<String> {
        match self {
            // A virt-handler that starts while the VM starts finds a domain that is not alive yet, and deletes it. The
            // launcher must refuse this delete.
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
        if let Some(violation) = self.violation() {
            return write!(formatter, "{violation}");
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
                duration,
                error,
            } => {
                write!(formatter, "{method} in {} ms", duration.as_millis())?;
                error
                    .iter()
                    .try_for_each(|error| write!(formatter, ": {error}"))
            }
            Step::Phase(phase) => write!(formatter, "the VMI is {phase:?}"),
            Step::Failed(error) => write!(formatter, "reconcile failed, queued again: {error}"),
            Step::Stopped => write!(formatter, "virt-handler ended"),
            Step::Started { domain } => write!(formatter, "virt-handler started, domain {domain}"),
            other => write!(formatter, "{other:?}"),
        }
    }
}

/// A step with its time.
#[derive(Clone, Debug)]
pub struct StepEntry {
    /// The time since virt-handler's start.
    pub at: Duration,
    /// The step.
    pub step: Step,
}
