//! One hook of the count: the state of its probes, and when it is probed again.

use std::time::{Duration, Instant};

use crate::collect::hook_file::{FileStamp, HookFile, HookFileKind};

/// Pause before a hook that is not ready is probed again for the first time. Each following pause is twice as long.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(5);
/// Maximum pause before a hook is probed again.
const MAX_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// A flawed file that has not changed for this long is assumed to be complete, and fails the collection.
pub const WRITE_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) kind: HookFileKind,
    pub(super) stamp: FileStamp,
    /// When the file was last changed.
    changed: Instant,
    read_only: bool,
    attempts: u32,
    /// Why the last unsuccessful probe found the hook not ready.
    pub(super) reason: Option<String>,
    pub(super) state: HookState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HookState {
    Due,
    Probing,
    Waiting { reason: String, again: Instant },
    Flawed { reason: String },
    Ready { after: Duration },
}

impl Entry {
    pub(super) fn new(file: &HookFile, now: Instant) -> Self {
        Self {
            kind: file.kind,
            stamp: file.stamp,
            changed: now.checked_sub(file.age).unwrap_or(now),
            read_only: file.read_only,
            attempts: 0,
            reason: None,
            state: HookState::Due,
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        match self.state {
            HookState::Due => true,
            HookState::Waiting { again, .. } => again <= now,
            _ => false,
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        match self.state {
            HookState::Due => Some(self.changed),
            HookState::Waiting { again, .. } => Some(again),
            HookState::Flawed { .. } => Some(self.changed + WRITE_GRACE),
            HookState::Probing | HookState::Ready { .. } => None,
        }
    }

    /// The pause before the next attempt, with exponential backoff.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = FIRST_RETRY_PAUSE * 2_u32.saturating_pow(self.attempts.min(10));
        self.attempts += 1;
        pause.min(MAX_RETRY_PAUSE)
    }

    /// Why the hook is not ready; `None` if it is. During a repeated probe, the reason of the previous probe.
    pub(super) fn reason_not_ready(&self) -> Option<&str> {
        match &self.state {
            HookState::Ready { .. } => None,
            HookState::Due => Some("not probed yet"),
            HookState::Probing => {
                let unanswered = "it has not answered, or is being compiled";
                Some(self.reason.as_deref().unwrap_or(unanswered))
            }
            HookState::Waiting { reason, .. } | HookState::Flawed { reason } => Some(reason),
        }
    }

    /// The reason why the hook fails the collection: it is flawed, and its file is no longer changing.
    pub(super) fn unusable_reason(&self, now: Instant) -> Option<&str> {
        let HookState::Flawed { reason } = &self.state else {
            return None;
        };
        let is_unchanged = now.saturating_duration_since(self.changed) >= WRITE_GRACE;
        (self.read_only || is_unchanged).then_some(reason)
    }
}
