//! Kubernetes events about hooks that failed or refused, once per cause: virt-handler repeats its requests.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use hook_host::{HookError, Outcome, Run};

use crate::notify::{Notifier, Warning};

/// Sends the events. Clones share what was sent.
#[derive(Clone)]
pub struct HookFailureEvents {
    notifier: Notifier,
    /// Failures that an event was sent for.
    reported: Arc<Mutex<HashSet<String>>>,
}

impl HookFailureEvents {
    /// Nothing was sent yet.
    pub(crate) fn new(notifier: Notifier) -> HookFailureEvents {
        HookFailureEvents {
            notifier,
            reported: Arc::default(),
        }
    }

    /// Sends an event about a hook, unless the same was sent before.
    pub(crate) fn report(&self, error: &HookError) {
        self.warn(error, error.to_string());
    }

    /// Sends an event for each failure that a hook's `failurePolicy` lets pass, where no `HookApplied` counts them.
    pub(crate) fn report_ignored(&self, runs: &[Run]) {
        for run in runs {
            if let Outcome::Failed(error) = &run.outcome {
                self.warn(
                    error,
                    format!("{error}; ignored, as its failurePolicy says"),
                );
            }
        }
    }

    fn warn(&self, error: &HookError, message: String) {
        let cause = format!("{} {message}", error.kind());
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert(cause) {
            self.notifier.warning(&Warning {
                reason: error.event_reason(),
                message,
            });
        }
    }
}
