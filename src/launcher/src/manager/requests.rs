//! Which request runs when. Pure: knows neither libvirt nor tokio.
//!
//! Two lanes. The ordinary one runs one operation at a time, first come first served:
//! ```text
//!            request                       done, nothing waits
//!   [idle] ───────────▶ [running] ◀──┐  ──────────────────────▶ [idle]
//!                           └────────┘ done: the next that waits
//! ```
//! The ending one (kill, delete) does the same beside it, and pre-empts: what waits in the ordinary
//! lane is refused, what runs there is told to stop at its next safe point.
//!
//! A request for what already waits or runs joins it and gets the same answer: virt-handler gives up
//! on a call after 20 s and calls again, and that must neither cut the operation short nor start it
//! twice. Every caller is answered exactly once, at the latest when the launcher ends.

use std::collections::VecDeque;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    /// Make the VM what its specification says, above all: running.
    Sync {
        /// The VMI's UID: one boot is one UID.
        boot: String,
    },
    /// Stop the processors.
    Pause,
    /// Let them run again.
    Unpause,
    /// Press the reset button.
    Reset,
    /// Ask the guest to reboot.
    SoftReboot,
    /// Ask the guest to power off.
    Shutdown,
    /// End QEMU.
    Kill,
    /// Make libvirt forget the domain.
    Delete,
}

impl Verb {
    fn ends(&self) -> bool {
        matches!(self, Verb::Kill | Verb::Delete)
    }
}

/// Names one operation, for as long as it waits and runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ticket(u64);

/// Why a request is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A kill or delete came in between.
    #[error("the virtual machine is being ended")]
    Ending,
    /// The launcher itself ends.
    #[error("the launcher is exiting")]
    Exiting,
    /// Far more is asked for than virt-handler ever does.
    #[error("too many requests are waiting; try again")]
    Busy,
}

/// What the driver has to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action<P, C> {
    /// Start the operation.
    Start {
        /// Its name.
        ticket: Ticket,
        /// What it does.
        verb: Verb,
        /// What it needs to know.
        payload: P,
    },
    /// Tell the running operation to stop at its next safe point.
    Interrupt(Ticket),
    /// Answer these callers now.
    Refuse(Vec<C>, Refusal),
}

struct Job<P, C> {
    ticket: Ticket,
    verb: Verb,
    payload: Option<P>,
    callers: Vec<C>,
}

struct Lane<P, C> {
    running: Option<Job<P, C>>,
    waiting: VecDeque<Job<P, C>>,
}

/// The two lanes. `P` is what an operation needs to know, `C` whom to answer.
pub(super) struct Requests<P, C> {
    ordinary: Lane<P, C>,
    ending: Lane<P, C>,
    issued: u64,
    closed: bool,
}

/// More than virt-handler has in flight by two orders of magnitude.
const MOST_WAITING: usize = 64;

impl<P, C> Default for Requests<P, C> {
    fn default() -> Self {
        Requests {
            ordinary: Lane::default(),
            ending: Lane::default(),
            issued: 0,
            closed: false,
        }
    }
}

impl<P, C> Default for Lane<P, C> {
    fn default() -> Self {
        Lane {
            running: None,
            waiting: VecDeque::new(),
        }
    }
}

impl<P, C> Lane<P, C> {
    /// The operation that a request for `verb` can join: a sync anywhere (it is a wish, not an
    /// order), anything else only at the end of the line (pause, unpause, pause are three).
    fn joinable(&mut self, verb: &Verb) -> Option<&mut Job<P, C>> {
        let mut line = self.running.iter_mut().chain(&mut self.waiting);
        match verb {
            Verb::Sync { .. } => line.find(|job| job.verb == *verb),
            _ => line.next_back().filter(|job| job.verb == *verb),
        }
    }

    fn start_next(&mut self) -> Option<Action<P, C>> {
        if self.running.is_some() {
            return None;
        }
        let mut job = self.waiting.pop_front()?;
        let action = job.payload.take().map(|payload| Action::Start {
            ticket: job.ticket,
            verb: job.verb.clone(),
            payload,
        });
        self.running = Some(job);
        action
    }

    fn finish(&mut self, ticket: Ticket) -> Option<Vec<C>> {
        let job = self.running.take_if(|job| job.ticket == ticket)?;
        Some(job.callers)
    }

    fn drain_waiting(&mut self) -> Vec<C> {
        self.waiting.drain(..).flat_map(|job| job.callers).collect()
    }
}

impl<P, C> Requests<P, C> {
    /// Takes a request in.
    pub(super) fn request(&mut self, verb: Verb, payload: P, caller: C) -> Vec<Action<P, C>> {
        if self.closed {
            return vec![Action::Refuse(vec![caller], Refusal::Exiting)];
        }
        let lane = if verb.ends() {
            &mut self.ending
        } else {
            &mut self.ordinary
        };
        if let Some(job) = lane.joinable(&verb) {
            if job.callers.len() >= MOST_WAITING {
                return vec![Action::Refuse(vec![caller], Refusal::Busy)];
            }
            job.callers.push(caller);
            return Vec::new();
        }
        if lane.waiting.len() >= MOST_WAITING {
            return vec![Action::Refuse(vec![caller], Refusal::Busy)];
        }
        self.issued += 1;
        let ends = verb.ends();
        lane.waiting.push_back(Job {
            ticket: Ticket(self.issued),
            verb,
            payload: Some(payload),
            callers: vec![caller],
        });
        let started = lane.start_next();
        let mut actions = if ends { self.pre_empt() } else { Vec::new() };
        actions.extend(started);
        actions
    }

    /// An operation ended: whom to give its result to, and what to do next.
    pub(super) fn observe_done(&mut self, ticket: Ticket) -> (Vec<C>, Vec<Action<P, C>>) {
        for lane in [&mut self.ordinary, &mut self.ending] {
            if let Some(callers) = lane.finish(ticket) {
                return (callers, lane.start_next().into_iter().collect());
            }
        }
        (Vec::new(), Vec::new())
    }

    /// The launcher ends: nothing more is started, and everybody who waits is refused. Operations
    /// that run are interrupted; their callers are answered when they end.
    pub(super) fn close(&mut self) -> Vec<Action<P, C>> {
        self.closed = true;
        let mut callers = self.ordinary.drain_waiting();
        callers.extend(self.ending.drain_waiting());
        let mut actions = Vec::new();
        if !callers.is_empty() {
            actions.push(Action::Refuse(callers, Refusal::Exiting));
        }
        actions.extend(
            self.ordinary
                .running
                .as_ref()
                .map(|job| Action::Interrupt(job.ticket)),
        );
        actions
    }

    /// Everybody still waiting for an answer, when the launcher cannot wait any longer.
    pub(super) fn abandon(&mut self) -> Vec<C> {
        self.closed = true;
        let mut callers = self.ordinary.drain_waiting();
        callers.extend(self.ending.drain_waiting());
        for lane in [&mut self.ordinary, &mut self.ending] {
            callers.extend(lane.running.take().into_iter().flat_map(|job| job.callers));
        }
        callers
    }

    fn pre_empt(&mut self) -> Vec<Action<P, C>> {
        let mut actions = Vec::new();
        let refused = self.ordinary.drain_waiting();
        if !refused.is_empty() {
            actions.push(Action::Refuse(refused, Refusal::Ending));
        }
        actions.extend(
            self.ordinary
                .running
                .as_ref()
                .map(|job| Action::Interrupt(job.ticket)),
        );
        actions
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
