//! Kubernetes events about hooks that failed or refused, once per cause: virt-handler repeats its requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use hook_host::{HookError, Outcome, Run};

use crate::notify::{Notifier, Warning};

/// The most messages of one hook and kind of failure. A message of the hook's own may differ each time.
const MAX_MESSAGES: usize = 8;

/// Failures that an event was sent for.
#[derive(Default)]
struct Reported(HashMap<(String, &'static str), HashSet<String>>);

impl Reported {
    /// Whether an event says something new about the hook.
    fn insert(&mut self, hook: &str, kind: &'static str, message: &str) -> bool {
        let messages = self.0.entry((hook.to_owned(), kind)).or_default();
        messages.len() < MAX_MESSAGES && messages.insert(message.to_owned())
    }
}

/// Sends the events. Clones share what was sent.
#[derive(Clone)]
pub struct HookFailureEvents {
    notifier: Notifier,
    reported: Arc<Mutex<Reported>>,
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
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert(error.hook(), error.kind(), &message) {
            self.notifier.warning(&Warning {
                reason: error.event_reason(),
                message,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_differs_each_time_is_reported_a_few_times() {
        let mut reported = Reported::default();
        let new = (0..100).filter(|n| reported.insert("h", "veto", &format!("at {n}")));
        assert_eq!(new.count(), MAX_MESSAGES);
        assert!(reported.insert("h", "trap", "at 0"));
        assert!(!reported.insert("h", "trap", "at 0"));
        assert!(reported.insert("other", "veto", "at 0"));
        assert_eq!(reported.0.len(), 3);
    }
}
