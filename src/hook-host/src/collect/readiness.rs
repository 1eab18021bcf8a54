//! The state of the count protocol as a pure type: the hooks in the hooks directory, their readiness, and the next
//! probes.
//!
//! ```text
//!           appears            attempt                 answers
//! (nothing) ───────▶ due ───────────────▶ probing ───────────────▶ ready
//!                     ▲                     │  │                     │
//!                     │   backed off        │  │ cannot be used      │ file replaced
//!                     ├──────── waiting ◀───┘  ▼                     │
//!                     └──────────────────── flawed ◀─ file changed ──┘
//! ```
//! From every state, a changed file returns to `due`, and a removed file is forgotten.

mod hook_entry;
mod probe_attempt;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::hook_file::HookId;
use super::hooks_directory_listing::HooksListing;
pub use hook_entry::WRITE_GRACE;
use hook_entry::{Entry, HookState};
pub(super) use probe_attempt::{ProbeAttempt, ProbeOutcome};

/// The readiness of all hooks in the hooks directory.
#[derive(Debug)]
pub(super) struct Readiness {
    expected: usize,
    started: Instant,
    entries: BTreeMap<HookId, Entry>,
    directories: Vec<String>,
}

/// Whether the expected hooks are ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CountState {
    /// Not all expected hooks are ready.
    Pending,
    /// Exactly the expected hooks are ready.
    Complete,
    /// The expected number of hooks is ready, but there are more. The value has all of them.
    Surplus(Vec<HookId>),
    /// A hook cannot be used, and its file is no longer changing. The value is the reason.
    Flawed(String),
}

/// A directory with both a socket and a module.
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

    /// Updates the state from a new listing. The error is a directory with both a socket and a module.
    pub(super) fn observe(
        &mut self,
        listing: &HooksListing,
        now: Instant,
    ) -> Result<(), MixedDirectory> {
        self.directories.clone_from(&listing.directories);
        let listed: BTreeSet<&HookId> = listing.hooks.iter().map(|file| &file.id).collect();
        self.entries.retain(|id, _| listed.contains(id));
        for file in &listing.hooks {
            let entry = self.entries.get(&file.id);
            if entry.is_none_or(|entry| entry.stamp != file.stamp || entry.kind != file.kind) {
                self.entries.insert(file.id.clone(), Entry::new(file, now));
            }
        }
        self.check_mixed_directories()
    }

    fn check_mixed_directories(&self) -> Result<(), MixedDirectory> {
        for directory in &self.directories {
            let mut kinds = self.entries_in(directory).map(|(_, entry)| entry.kind);
            let first = kinds.next();
            if kinds.any(|kind| Some(kind) != first) {
                let files = self
                    .entries_in(directory)
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

    fn entries_in<'a>(
        &'a self,
        directory: &'a str,
    ) -> impl Iterator<Item = (&'a HookId, &'a Entry)> {
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

    /// Records the outcome of a probe. Returns `false` if the outcome is ignored, because the file changed or
    /// disappeared meanwhile.
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
                again: now + entry.next_pause(),
            },
            ProbeOutcome::Flawed(reason) => HookState::Flawed { reason },
        };
        true
    }

    /// The state of the count. Callers call `observe` immediately before, so that a surplus is noticed.
    pub(super) fn count_state(&self, now: Instant) -> CountState {
        if let Some(reason) = self
            .entries
            .values()
            .find_map(|entry| entry.unusable_reason(now))
        {
            return CountState::Flawed(reason.to_owned());
        }
        if self.ready_count() < self.expected {
            return CountState::Pending;
        }
        if self.entries.len() > self.expected {
            return CountState::Surplus(self.entries.keys().cloned().collect());
        }
        CountState::Complete
    }

    fn ready_count(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| matches!(entry.state, HookState::Ready { .. }))
            .count()
    }

    /// The next time at which a probe becomes due or a flawed hook fails the collection.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.entries.values().filter_map(Entry::next_due).min()
    }

    /// Time from the start of the collection until the hook was ready; `None` if it is not ready.
    pub(super) fn ready_after(&self, id: &HookId) -> Option<Duration> {
        match self.entries.get(id)?.state {
            HookState::Ready { after } => Some(after),
            _ => None,
        }
    }

    /// Whether the hook's directory contains other hooks too.
    pub(super) fn shares_directory(&self, id: &HookId) -> bool {
        self.entries_in(&id.directory).count() > 1
    }

    /// The ready hooks, each with its time, for messages.
    pub(super) fn arrived(&self) -> Vec<String> {
        let ready = |(id, entry): (&HookId, &Entry)| match entry.state {
            HookState::Ready { after } => Some(format!("{id} (after {} ms)", after.as_millis())),
            _ => None,
        };
        self.entries.iter().filter_map(ready).collect()
    }

    /// The hooks that are not ready, each with what it lacks, for messages.
    pub(super) fn not_ready(&self) -> Vec<String> {
        let mut hooks: Vec<String> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| Some(format!("{id}: {}", entry.reason_not_ready()?)))
            .collect();
        let empty_directories = self
            .directories
            .iter()
            .filter(|name| self.entries_in(name).next().is_none());
        hooks.extend(
            empty_directories.map(|name| format!("{name}: no socket and no .wasm file yet")),
        );
        let missing = self
            .expected
            .saturating_sub(self.ready_count() + hooks.len());
        if missing > 0 {
            hooks.push(format!("{missing} of which there is no sign"));
        }
        hooks
    }
}
