//! When the guest agent is asked what. Pure: time is what the caller says it is.
//!
//! ```text
//!                    agent connects, guest runs
//!   [unreachable] ───────────────────────────────▶ [reachable] ──frozen──▶ [frozen]: only the freeze status
//!         ▲                                          │  ▲  └──────◀──thawed──────┘
//!         └──── agent goes away, guest is paused ────┘  └─ no answer: all polls wait, ever longer
//! ```
//! A session of the agent begins with all polls at once; then each is asked after 10 s, and after ever twice as long up
//! to its own interval, as in KubeVirt. Two rules are not KubeVirt's. An agent that gives no answer is left alone for a
//! while, since each command to it takes seconds in which no other command reaches it. A frozen agent disables nearly
//! all commands and says so in guest-info, so it is asked for nothing else until it is thawed.

use std::time::Duration;

/// The first interval of each poll, if its own is not shorter.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);
/// Between two commands of the same poll, also when the agent connects again and again.
const LEAST_GAP: Duration = Duration::from_secs(1);
/// How long an agent that gives no answer is left alone: at first, and at most.
const SILENCE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];

/// What the agent is asked at one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Poll {
    /// Whether file systems are frozen.
    FreezeStatus,
    /// The agent's version and commands.
    Agent,
    /// Interfaces, operating system, host name, time zone.
    System,
    /// Users who are logged in.
    Users,
    /// Mounted file systems.
    Filesystems,
    /// Load averages.
    Load,
}

/// All polls in the order in which they are asked; the freeze status decides on the others.
pub(super) const POLLS: [Poll; 6] = [
    Poll::FreezeStatus,
    Poll::Agent,
    Poll::System,
    Poll::Users,
    Poll::Filesystems,
    Poll::Load,
];

/// The intervals of the polls, from KubeVirt's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollIntervals {
    /// `--qemu-agent-sys-interval`.
    pub system: Duration,
    /// `--qemu-agent-file-interval`.
    pub filesystems: Duration,
    /// `--qemu-agent-user-interval`.
    pub users: Duration,
    /// `--qemu-agent-version-interval`.
    pub version: Duration,
    /// `--qemu-fsfreeze-status-interval`.
    pub freeze_status: Duration,
}

impl Default for PollIntervals {
    fn default() -> Self {
        PollIntervals {
            system: Duration::from_secs(120),
            filesystems: Duration::from_secs(300),
            users: Duration::from_secs(10),
            version: Duration::from_secs(300),
            freeze_status: Duration::from_secs(5),
        }
    }
}

impl PollIntervals {
    fn of(&self, poll: Poll) -> Duration {
        let interval = match poll {
            Poll::FreezeStatus => self.freeze_status,
            Poll::Agent => self.version,
            Poll::System | Poll::Load => self.system,
            Poll::Users => self.users,
            Poll::Filesystems => self.filesystems,
        };
        interval.max(LEAST_GAP)
    }
}

/// Whether the agent can be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AgentLink {
    /// It is connected, and the guest runs.
    pub(crate) reachable: bool,
    /// How often an agent has connected.
    pub(crate) session: u64,
}

/// How a poll ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollOutcome {
    /// The agent has answered, if only that it refuses.
    Answered,
    /// It has not.
    Silent,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    poll: Poll,
    due: Duration,
    /// From the next time that it is asked to the one after.
    pause: Duration,
    asked: Option<Duration>,
}

/// The policy and its state. Times count from any fixed moment.
#[derive(Debug)]
pub(super) struct Schedule {
    intervals: PollIntervals,
    entries: [Entry; POLLS.len()],
    link: AgentLink,
    frozen: bool,
    /// Nothing is asked before.
    quiet_until: Duration,
    /// How long the next silence will be.
    silence: Duration,
}

impl Schedule {
    /// The agent is not reachable yet.
    pub(super) fn new(intervals: PollIntervals) -> Schedule {
        let entry = |poll| Entry {
            poll,
            due: Duration::ZERO,
            pause: Duration::ZERO,
            asked: None,
        };
        Schedule {
            intervals,
            entries: POLLS.map(entry),
            link: AgentLink::default(),
            frozen: false,
            quiet_until: Duration::ZERO,
            silence: SILENCE[0],
        }
    }

    /// The agent has come or gone, or the guest was paused or resumed.
    pub(super) fn observe_link(&mut self, link: AgentLink, now: Duration) {
        let before = std::mem::replace(&mut self.link, link);
        let begins = link.reachable && (!before.reachable || before.session != link.session);
        if !begins {
            return;
        }
        if before.session != link.session {
            self.quiet_until = Duration::ZERO;
            self.silence = SILENCE[0];
        }
        for entry in &mut self.entries {
            let gap = entry
                .asked
                .map_or(Duration::ZERO, |asked| asked + LEAST_GAP);
            entry.due = now.max(gap);
            entry.pause = FIRST_INTERVAL.min(self.intervals.of(entry.poll));
        }
    }

    /// File systems are frozen, or no longer.
    pub(super) fn observe_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// A poll has ended.
    pub(super) fn observe_outcome(&mut self, poll: Poll, outcome: PollOutcome, now: Duration) {
        let interval = self.intervals.of(poll);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.poll == poll) {
            entry.asked = Some(now);
            entry.due = now + entry.pause;
            entry.pause = (entry.pause * 2).min(interval);
        }
        match outcome {
            PollOutcome::Answered => self.silence = SILENCE[0],
            PollOutcome::Silent => {
                self.quiet_until = now + self.silence;
                self.silence = (self.silence * 2).min(SILENCE[1]);
            }
        }
    }

    /// What is asked next, and when; nothing while the agent is not reachable.
    pub(super) fn next(&self) -> Option<(Duration, Poll)> {
        if !self.link.reachable {
            return None;
        }
        let allowed = |entry: &&Entry| !self.frozen || entry.poll == Poll::FreezeStatus;
        let next = self
            .entries
            .iter()
            .filter(allowed)
            .min_by_key(|entry| entry.due)?;
        Some((next.due.max(self.quiet_until), next.poll))
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
