//! Kubernetes events about hooks that failed or refused. Each cause is reported once, because virt-handler repeats its
//! requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use hook_host::{HookError, Outcome, Run};

use crate::notify::{Notifier, Warning};

/// Maximum number of different messages per hook and kind of failure. The messages that a hook sets itself may differ
/// each time.
const MAX_MESSAGES_PER_KIND: usize = 8;

/// The failures for which an event was sent: messages by hook and kind of failure.
#[derive(Default)]
struct ReportedFailures(HashMap<(String, &'static str), HashSet<String>>);

impl ReportedFailures {
    /// Adds a failure. Returns whether it is new and to be reported.
    fn insert(&mut self, hook: &str, kind: &'static str, message: &str) -> bool {
        let messages = self.0.entry((hook.to_owned(), kind)).or_default();
        messages.len() < MAX_MESSAGES_PER_KIND && messages.insert(message.to_owned())
    }
}

/// Sends the events. Clones share the record of sent events.
#[derive(Clone)]
pub struct HookFailureEvents {
    notifier: Notifier,
    reported: Arc<Mutex<ReportedFailures>>,
}

impl HookFailureEvents {
    /// A sender that has sent nothing yet.
    pub(crate) fn new(notifier: Notifier) -> HookFailureEvents {
        HookFailureEvents {
            notifier,
            reported: Arc::default(),
        }
    }

    /// Sends an event about a hook's failure, unless the same was sent before.
    pub(crate) fn report(&self, error: &HookError) {
        self.send_warning(error, error.to_string());
    }

    /// Sends an event for each failure that a hook's `failurePolicy` ignores. Called where no `HookApplied` event
    /// counts them.
    pub(crate) fn report_ignored(&self, runs: &[Run]) {
        for run in runs {
            if let Outcome::Failed(error) = &run.outcome {
                self.send_warning(
                    error,
                    format!("{error}; ignored, as its failurePolicy says"),
                );
            }
        }
    }

    fn send_warning(&self, error: &HookError, message: String) {
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
    fn message_that_differs_each_time_is_reported_up_to_the_maximum() {
        let mut reported = ReportedFailures::default();
        let new = (0..100).filter(|n| reported.insert("h", "veto", &format!("at {n}")));
        assert_eq!(new.count(), MAX_MESSAGES_PER_KIND);
        assert!(reported.insert("h", "trap", "at 0"));
        assert!(!reported.insert("h", "trap", "at 0"));
        assert!(reported.insert("other", "veto", "at 0"));
        assert_eq!(reported.0.len(), 3);
    }
}
