//! The state of the count protocol as a pure type: which hooks exist, which are ready, what to probe next.
//!
//! ```text
//!           appears            attempt                 answers
//! (nothing) ───────▶ due ───────────────▶ probing ───────────────▶ ready
//!                     ▲                     │  │                     │
//!                     │   backed off        │  │ cannot be used      │ file replaced
//!                     ├──────── waiting ◀───┘  ▼                     │
//!                     └──────────────────── flawed ◀─ file changed ──┘
//! ```
//! A file that changes or disappears leaves any state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::list_hooks_directory::{FileStamp, HookFile, HookFileKind, HookId, HooksListing};

/// The first pause before a socket is dialled again; each following pause is twice as long, ...
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// ... up to this.
const LAST_RETRY: Duration = Duration::from_millis(100);
/// A flawed file that has not changed for this long is not being written any more.
pub const WRITE_GRACE: Duration = Duration::from_secs(2);

/// Everything known about the hooks that are being collected.
#[derive(Debug)]
pub(super) struct Readiness {
    expected: usize,
    started: Instant,
    entries: BTreeMap<HookId, Entry>,
    directories: Vec<String>,
}

#[derive(Debug)]
struct Entry {
    kind: HookFileKind,
    stamp: FileStamp,
    /// The last change of the content.
    changed: Instant,
    read_only: bool,
    attempts: u32,
    /// Why the last probe found it not ready.
    reason: Option<String>,
    state: HookState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HookState {
    Due,
    Probing,
    Waiting { reason: String, again: Instant },
    Flawed { reason: String },
    Ready { after: Duration },
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProbeOutcome {
    /// The hook is ready.
    Ready,
    /// The hook is not available yet and is probed again.
    NotReady(String),
    /// The file cannot be used unless it changes.
    Flawed(String),
}

/// A probe to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProbeAttempt {
    pub(super) id: HookId,
    pub(super) kind: HookFileKind,
    pub(super) stamp: FileStamp,
}

/// The state of the count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CountState {
    /// Hooks are still waited for.
    Pending,
    /// Exactly the expected hooks are ready.
    Complete,
    /// As many as expected are ready, but there are more.
    Surplus(Vec<HookId>),
    /// A file that cannot be used and is no longer changing.
    Flawed(String),
}

/// A directory with both kinds of hooks in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MixedDirectory {
    pub(super) directory: String,
    pub(super) files: Vec<String>,
}

impl Readiness {
    pub(super) fn new(expected: usize, now: Instant) -> Self {
        Self {
            expected,
            started: now,
            entries: BTreeMap::new(),
            directories: Vec::new(),
        }
    }

    /// Updates the state from a new listing.
    pub(super) fn observe(
        &mut self,
        listing: &HooksListing,
        now: Instant,
    ) -> Result<(), MixedDirectory> {
        self.directories.clone_from(&listing.directories);
        let found: BTreeSet<&HookId> = listing.hooks.iter().map(|found| &found.id).collect();
        self.entries.retain(|id, _| found.contains(id));
        for found in &listing.hooks {
            let known = self.entries.get(&found.id);
            if known.is_none_or(|entry| entry.stamp != found.stamp || entry.kind != found.kind) {
                self.entries
                    .insert(found.id.clone(), Entry::new(found, now));
            }
        }
        self.one_kind_each()
    }

    fn one_kind_each(&self) -> Result<(), MixedDirectory> {
        for directory in &self.directories {
            let mut kinds = self.within(directory).map(|(_, entry)| entry.kind);
            let first = kinds.next();
            if kinds.any(|kind| Some(kind) != first) {
                let files = self
                    .within(directory)
                    .map(|(id, _)| id.file.clone())
                    .collect();
                return Err(MixedDirectory {
                    directory: directory.clone(),
                    files,
                });
            }
        }
        Ok(())
    }

    fn within<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (&'a HookId, &'a Entry)> {
        self.entries
            .iter()
            .filter(move |(id, _)| id.directory == directory)
    }

    /// The probes to start now. Each hook is in state `Probing` until `finish_attempt`.
    pub(super) fn due_attempts(&mut self, now: Instant) -> Vec<ProbeAttempt> {
        let due = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| entry.is_due(now));
        due.map(|(id, entry)| {
            entry.state = HookState::Probing;
            ProbeAttempt {
                id: id.clone(),
                kind: entry.kind,
                stamp: entry.stamp,
            }
        })
        .collect()
    }

    /// Records the outcome of a probe; false if the file changed or disappeared meanwhile.
    pub(super) fn finish_attempt(
        &mut self,
        attempt: &ProbeAttempt,
        outcome: ProbeOutcome,
        now: Instant,
    ) -> bool {
        let started = self.started;
        let Some(entry) = self.entries.get_mut(&attempt.id) else {
            return false;
        };
        if entry.stamp != attempt.stamp || entry.state != HookState::Probing {
            return false;
        }
        if let ProbeOutcome::NotReady(reason) = &outcome {
            entry.reason = Some(reason.clone());
        }
        entry.state = match outcome {
            ProbeOutcome::Ready => HookState::Ready {
                after: now.saturating_duration_since(started),
            },
            ProbeOutcome::NotReady(reason) => HookState::Waiting {
                reason,
                again: now + entry.back_off(),
            },
            ProbeOutcome::Flawed(reason) => HookState::Flawed { reason },
        };
        true
    }

    /// The state of the count. Call `observe` right before, so that a surplus is seen.
    pub(super) fn count_state(&self, now: Instant) -> CountState {
        if let Some(reason) = self
            .entries
            .values()
            .find_map(|entry| entry.unusable_reason(now))
        {
            return CountState::Flawed(reason.to_owned());
        }
        if self.ready() < self.expected {
            return CountState::Pending;
        }
        if self.entries.len() > self.expected {
            return CountState::Surplus(self.entries.keys().cloned().collect());
        }
        CountState::Complete
    }

    fn ready(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| matches!(entry.state, HookState::Ready { .. }))
            .count()
    }

    /// The next time at which a probe or a verdict becomes due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.entries.values().filter_map(Entry::next).min()
    }

    /// How long after the start a hook was ready.
    pub(super) fn ready_after(&self, id: &HookId) -> Option<Duration> {
        match self.entries.get(id)?.state {
            HookState::Ready { after } => Some(after),
            _ => None,
        }
    }

    /// Whether the directory holds more than this one hook.
    pub(super) fn shares_directory(&self, id: &HookId) -> bool {
        self.within(&id.directory).count() > 1
    }

    /// The ready hooks, for messages.
    pub(super) fn arrived(&self) -> Vec<String> {
        let ready = |(id, entry): (&HookId, &Entry)| match entry.state {
            HookState::Ready { after } => Some(format!("{id} (after {} ms)", after.as_millis())),
            _ => None,
        };
        self.entries.iter().filter_map(ready).collect()
    }

    /// The hooks that are not ready, each with what it lacks, for messages.
    pub(super) fn laggards(&self) -> Vec<String> {
        let mut laggards: Vec<String> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| Some(format!("{id}: {}", entry.missing()?)))
            .collect();
        let empty = self
            .directories
            .iter()
            .filter(|name| self.within(name).next().is_none());
        laggards.extend(empty.map(|name| format!("{name}: no socket and no .wasm file yet")));
        let missing = self.expected.saturating_sub(self.ready() + laggards.len());
        if missing > 0 {
            laggards.push(format!("{missing} of which there is no sign"));
        }
        laggards
    }
}

impl Entry {
    fn new(found: &HookFile, now: Instant) -> Self {
        Self {
            kind: found.kind,
            stamp: found.stamp,
            changed: now.checked_sub(found.age).unwrap_or(now),
            read_only: found.read_only,
            attempts: 0,
            reason: None,
            state: HookState::Due,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        match self.state {
            HookState::Due => true,
            HookState::Waiting { again, .. } => again <= now,
            _ => false,
        }
    }

    fn next(&self) -> Option<Instant> {
        match self.state {
            HookState::Due => Some(self.changed),
            HookState::Waiting { again, .. } => Some(again),
            HookState::Flawed { .. } => Some(self.changed + WRITE_GRACE),
            HookState::Probing | HookState::Ready { .. } => None,
        }
    }

    fn back_off(&mut self) -> Duration {
        let wait = FIRST_RETRY * 2_u32.saturating_pow(self.attempts.min(10));
        self.attempts += 1;
        wait.min(LAST_RETRY)
    }

    /// What the hook lacks. While it is probed again, that is what the last probe found.
    fn missing(&self) -> Option<&str> {
        match &self.state {
            HookState::Ready { .. } => None,
            HookState::Due => Some("not looked at yet"),
            HookState::Probing => {
                let unanswered = "it has not answered, or is being compiled";
                Some(self.reason.as_deref().unwrap_or(unanswered))
            }
            HookState::Waiting { reason, .. } | HookState::Flawed { reason } => Some(reason),
        }
    }

    fn unusable_reason(&self, now: Instant) -> Option<&str> {
        let HookState::Flawed { reason } = &self.state else {
            return None;
        };
        let settled = now.saturating_duration_since(self.changed) >= WRITE_GRACE;
        (self.read_only || settled).then_some(reason)
    }
}

#[cfg(test)]
#[path = "readiness_tests.rs"]
mod tests;
