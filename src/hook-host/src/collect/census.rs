//! The count protocol as a pure type: what is there, what is ready, what to do next.
//!
//! ```text
//!           appears            attempt                 answers
//! (nothing) ───────▶ due ───────────────▶ probing ───────────────▶ ready
//!                     ▲                     │  │                     │
//!                     │   backed off        │  │ cannot be used      │ file replaced
//!                     ├──────── waiting ◀───┘  ▼                     │
//!                     └──────────────────── flawed ◀─ file changed ──┘
//! ```
//! A file that changes or disappears leaves every state.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::scan::{Found, Id, Kind, Listing, Stamp};

/// A socket that cannot be dialled is tried again after this long, then twice that, ...
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// ... up to this.
const LAST_RETRY: Duration = Duration::from_millis(100);
/// A flawed file that has not changed for this long is not being written any more.
const SETTLED: Duration = Duration::from_secs(2);

/// Everything known about the hooks that are being collected.
#[derive(Debug)]
pub(super) struct Census {
    expected: usize,
    started: Instant,
    entries: BTreeMap<Id, Entry>,
    directories: Vec<String>,
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    stamp: Stamp,
    /// When its content changed last.
    changed: Instant,
    read_only: bool,
    attempts: u32,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Due,
    Probing,
    Waiting { reason: String, again: Instant },
    Flawed { reason: String },
    Ready { after: Duration },
}

/// How an attempt at a hook went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is ready.
    Ready,
    /// It is not there yet; trying again costs little.
    NotReady(String),
    /// It cannot be used as it is; only a change can help.
    Flawed(String),
}

/// An attempt to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) id: Id,
    pub(super) kind: Kind,
    pub(super) stamp: Stamp,
}

/// Where the count stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Hooks are still waited for.
    Pending,
    /// All are ready, and there are no others.
    Complete,
    /// As many as expected are ready, but there are more.
    Surplus(Vec<Id>),
    /// A file that will not get better.
    Flawed(String),
}

/// A directory with both kinds of hooks in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mixed {
    pub(super) directory: String,
    pub(super) files: Vec<String>,
}

impl Census {
    pub(super) fn new(expected: usize, now: Instant) -> Self {
        Self {
            expected,
            started: now,
            entries: BTreeMap::new(),
            directories: Vec::new(),
        }
    }

    /// Takes in what is there now.
    pub(super) fn observe(&mut self, listing: &Listing, now: Instant) -> Result<(), Mixed> {
        self.directories.clone_from(&listing.directories);
        self.entries
            .retain(|id, _| listing.found.iter().any(|found| found.id == *id));
        for found in &listing.found {
            let known = self.entries.get(&found.id);
            if known.is_none_or(|entry| entry.stamp != found.stamp || entry.kind != found.kind) {
                self.entries
                    .insert(found.id.clone(), Entry::new(found, now));
            }
        }
        self.one_kind_each()
    }

    fn one_kind_each(&self) -> Result<(), Mixed> {
        for directory in &self.directories {
            let mut kinds = self.within(directory).map(|(_, entry)| entry.kind);
            let first = kinds.next();
            if kinds.any(|kind| Some(kind) != first) {
                let files = self
                    .within(directory)
                    .map(|(id, _)| id.file.clone())
                    .collect();
                return Err(Mixed {
                    directory: directory.clone(),
                    files,
                });
            }
        }
        Ok(())
    }

    fn within<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (&'a Id, &'a Entry)> {
        self.entries
            .iter()
            .filter(move |(id, _)| id.directory == directory)
    }

    /// The attempts to be made now; each is out until its outcome comes.
    pub(super) fn attempts(&mut self, now: Instant) -> Vec<Attempt> {
        let due = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| entry.is_due(now));
        due.map(|(id, entry)| {
            entry.state = State::Probing;
            Attempt {
                id: id.clone(),
                kind: entry.kind,
                stamp: entry.stamp,
            }
        })
        .collect()
    }

    /// Takes in how an attempt went; false when the file has changed or gone meanwhile.
    pub(super) fn outcome(&mut self, attempt: &Attempt, outcome: Outcome, now: Instant) -> bool {
        let started = self.started;
        let Some(entry) = self.entries.get_mut(&attempt.id) else {
            return false;
        };
        if entry.stamp != attempt.stamp || entry.state != State::Probing {
            return false;
        }
        entry.state = match outcome {
            Outcome::Ready => State::Ready {
                after: now.saturating_duration_since(started),
            },
            Outcome::NotReady(reason) => State::Waiting {
                reason,
                again: now + entry.back_off(),
            },
            Outcome::Flawed(reason) => State::Flawed { reason },
        };
        true
    }

    /// Where the count stands. Observe right before, so that a surplus is seen.
    pub(super) fn verdict(&self, now: Instant) -> Verdict {
        if let Some(reason) = self.entries.values().find_map(|entry| entry.hopeless(now)) {
            return Verdict::Flawed(reason.to_owned());
        }
        if self.ready() < self.expected {
            return Verdict::Pending;
        }
        if self.entries.len() > self.expected {
            return Verdict::Surplus(self.entries.keys().cloned().collect());
        }
        Verdict::Complete
    }

    fn ready(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| matches!(entry.state, State::Ready { .. }))
            .count()
    }

    /// When something becomes due by itself.
    pub(super) fn next(&self) -> Option<Instant> {
        self.entries.values().filter_map(Entry::next).min()
    }

    /// How long after the start a hook was ready.
    pub(super) fn ready_after(&self, id: &Id) -> Option<Duration> {
        match self.entries.get(id)?.state {
            State::Ready { after } => Some(after),
            _ => None,
        }
    }

    /// Whether the directory holds more than this one hook.
    pub(super) fn shares_directory(&self, id: &Id) -> bool {
        self.within(&id.directory).count() > 1
    }

    /// What is ready, for people.
    pub(super) fn arrived(&self) -> Vec<String> {
        let ready = |(id, entry): (&Id, &Entry)| match entry.state {
            State::Ready { after } => Some(format!("{id} (after {} ms)", after.as_millis())),
            _ => None,
        };
        self.entries.iter().filter_map(ready).collect()
    }

    /// What is not, and what each is waited for.
    pub(super) fn laggards(&self) -> Vec<String> {
        let mut laggards: Vec<String> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| Some(format!("{id}: {}", entry.state.lacks()?)))
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
    fn new(found: &Found, now: Instant) -> Self {
        Self {
            kind: found.kind,
            stamp: found.stamp,
            changed: now.checked_sub(found.age).unwrap_or(now),
            read_only: found.read_only,
            attempts: 0,
            state: State::Due,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        match self.state {
            State::Due => true,
            State::Waiting { again, .. } => again <= now,
            _ => false,
        }
    }

    fn next(&self) -> Option<Instant> {
        match self.state {
            State::Due => Some(self.changed),
            State::Waiting { again, .. } => Some(again),
            State::Flawed { .. } => Some(self.changed + SETTLED),
            State::Probing | State::Ready { .. } => None,
        }
    }

    fn back_off(&mut self) -> Duration {
        let wait = FIRST_RETRY * 2_u32.saturating_pow(self.attempts.min(10));
        self.attempts += 1;
        wait.min(LAST_RETRY)
    }

    fn hopeless(&self, now: Instant) -> Option<&str> {
        let State::Flawed { reason } = &self.state else {
            return None;
        };
        let settled = now.saturating_duration_since(self.changed) >= SETTLED;
        (self.read_only || settled).then_some(reason)
    }
}

impl State {
    fn lacks(&self) -> Option<&str> {
        match self {
            Self::Ready { .. } => None,
            Self::Due => Some("not looked at yet"),
            Self::Probing => Some("it has not answered, or is being compiled"),
            Self::Waiting { reason, .. } | Self::Flawed { reason } => Some(reason),
        }
    }
}

#[cfg(test)]
#[path = "census_tests.rs"]
mod tests;
