//! Decides which poll of the guest agent is due when. Pure: the caller passes the time.
//!
//! ```text
//!                    agent connects, guest runs
//!   [unreachable] ───────────────────────────────▶ [reachable] ──frozen──▶ [frozen]: only the freeze status
//!         ▲                                          │  ▲  └──────◀──thawed──────┘
//!         └──── agent goes away, guest is paused ────┘  └─ no answer: all polls wait, for a growing pause
//! ```
//! A session of the agent begins with all polls at once. Then each poll is repeated after 10 s, and after twice the
//! pause each time, up to its own interval, as in KubeVirt. Two rules are not KubeVirt's. An agent that gives no answer
//! gets no command for a while, since each command to it takes seconds in which no other command reaches it. A frozen
//! agent disables nearly all commands and lists them as disabled in guest-info, so only its freeze status is polled
//! until it is thawed.

use std::time::Duration;

/// The first pause of each poll, unless its own interval is shorter.
const FIRST_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum time between two runs of the same poll, also when the agent connects again and again.
const MIN_POLL_GAP: Duration = Duration::from_secs(1);
/// How long an agent that gives no answer gets no command: at first, and at most.
const SILENCE_PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];

/// Commands that are sent at the same interval.
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

/// All polls in their order. The freeze status is first, since it decides whether the others may run.
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
        interval.max(MIN_POLL_GAP)
    }
}

/// Whether the agent can be polled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AgentLink {
    /// The agent is connected, and the guest runs.
    pub(crate) reachable: bool,
    /// How often an agent has connected so far.
    pub(crate) session: u64,
}

/// The outcome of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollOutcome {
    /// The agent has answered, perhaps with an error.
    Answered,
    /// The agent has not answered.
    Silent,
}

#[derive(Debug, Clone, Copy)]
struct PollState {
    poll: Poll,
    due: Duration,
    /// The pause after the next run.
    pause: Duration,
    last_run: Option<Duration>,
}

/// The policy and its state. Times are durations since an arbitrary fixed moment.
#[derive(Debug)]
pub(super) struct Schedule {
    intervals: PollIntervals,
    polls: [PollState; POLLS.len()],
    link: AgentLink,
    frozen: bool,
    /// No poll runs before this time.
    quiet_until: Duration,
    /// The pause after the next poll without an answer.
    silence: Duration,
}

impl Schedule {
    /// A schedule for an agent that is not reachable yet.
    pub(super) fn new(intervals: PollIntervals) -> Schedule {
        let never_run = |poll| PollState {
            poll,
            due: Duration::ZERO,
            pause: Duration::ZERO,
            last_run: None,
        };
        Schedule {
            intervals,
            polls: POLLS.map(never_run),
            link: AgentLink::default(),
            frozen: false,
            quiet_until: Duration::ZERO,
            silence: SILENCE_PAUSES[0],
        }
    }

    /// Observes that the agent has connected or disconnected, or that the guest was paused or resumed.
    pub(super) fn observe_link(&mut self, link: AgentLink, now: Duration) {
        let before = std::mem::replace(&mut self.link, link);
        let is_new_session =
            link.reachable && (!before.reachable || before.session != link.session);
        if !is_new_session {
            return;
        }
        if before.session != link.session {
            self.quiet_until = Duration::ZERO;
            self.silence = SILENCE_PAUSES[0];
        }
        for entry in &mut self.polls {
            let gap = entry
                .last_run
                .map_or(Duration::ZERO, |last_run| last_run + MIN_POLL_GAP);
            entry.due = now.max(gap);
            entry.pause = FIRST_INTERVAL.min(self.intervals.of(entry.poll));
        }
    }

    /// Observes whether the file systems are frozen.
    pub(super) fn observe_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// Observes the outcome of a poll.
    pub(super) fn observe_outcome(&mut self, poll: Poll, outcome: PollOutcome, now: Duration) {
        let interval = self.intervals.of(poll);
        if let Some(entry) = self.polls.iter_mut().find(|entry| entry.poll == poll) {
            entry.last_run = Some(now);
            entry.due = now + entry.pause;
            entry.pause = (entry.pause * 2).min(interval);
        }
        match outcome {
            PollOutcome::Answered => self.silence = SILENCE_PAUSES[0],
            PollOutcome::Silent => {
                self.quiet_until = now + self.silence;
                self.silence = (self.silence * 2).min(SILENCE_PAUSES[1]);
            }
        }
    }

    /// The next poll and when it is due; `None` while the agent is not reachable.
    pub(super) fn next(&self) -> Option<(Duration, Poll)> {
        if !self.link.reachable {
            return None;
        }
        let allowed = |entry: &&PollState| !self.frozen || entry.poll == Poll::FreezeStatus;
        let next = self
            .polls
            .iter()
            .filter(allowed)
            .min_by_key(|entry| entry.due)?;
        Some((next.due.max(self.quiet_until), next.poll))
    }
}

#[cfg(test)]
mod tests;
