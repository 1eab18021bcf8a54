//! The log of virt-handler's steps.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::steps_and_violations::{Step, StepEntry};

/// The steps for all VMs, one VM after the other.
pub(in crate::emulated_virt_handler) type Steps = Arc<watch::Sender<Vec<StepEntry>>>;

/// The steps for one VM.
#[derive(Debug)]
pub(super) struct StepLog {
    begin: Instant,
    steps: Steps,
    /// The index of this VM's first step.
    first_step: usize,
}

impl StepLog {
    pub(super) fn new(begin: Instant, steps: Steps) -> StepLog {
        let first_step = steps.borrow().len();
        StepLog {
            begin,
            steps,
            first_step,
        }
    }

    pub(super) fn add(&self, step: Step) {
        let at = self.begin.elapsed();
        self.steps
            .send_modify(|steps| steps.push(StepEntry { at, step }));
    }

    /// Whether virt-handler's process ended during this VM's life.
    pub(super) fn virt_handler_was_restarted(&self) -> bool {
        let steps = self.steps.borrow();
        let mut vm_steps = steps.iter().skip(self.first_step);
        vm_steps.any(|entry| entry.step == Step::Stopped)
    }

    /// Whether the launcher refused the last Sync.
    pub(super) fn sync_was_refused(&self) -> bool {
        let steps = self.steps.borrow();
        let vm_steps = steps.iter().skip(self.first_step);
        let last = vm_steps.rev().find_map(|entry| match &entry.step {
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
