//! How long the launcher lives, and how it ends the VM when it must. Pure.
//!
//! ```text
//!  [waiting] ──domain──▶ [watching] ──QEMU ended──▶ [ended] ──domain gone──▶ exit 0
//!      │ │                    │ └─────────domain gone──────────────────────▶ exit 0
//!      │ └─time is up─▶ exit 1│                        └──signal, time is up─▶ exit 0
//!      └─signal─▶ exit 0      └─signal─▶ [stopping]: the guest is asked (by virt-handler, or by us
//!                                        if it does not), killed when its grace period ends ─▶ exit 0
//! ```
//!
//! virt-handler owns a VM's end: it asks for the shutdown and deletes the domain, and the launcher
//! waits for that. Where there is no virt-handler, or it is silent, the launcher does it itself.

use std::time::Duration;

use crate::manager::VmState;

/// virt-handler has this long to ask for a shutdown after the signal.
const HANDLER_ASKS_WITHIN: Duration = Duration::from_secs(2);
/// virt-handler has this long to delete the domain of a VM that ended.
const HANDLER_DELETES_WITHIN: Duration = Duration::from_secs(15);
/// A kill that did not help is repeated.
const KILL_AGAIN: Duration = Duration::from_secs(5);

/// What is known when the launcher starts.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// `--qemu-timeout`.
    pub qemu_timeout: Duration,
    /// `--grace-period-seconds`.
    pub grace_period: Duration,
    /// There is no virt-handler.
    pub standalone: bool,
}

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The domain's state.
    State(VmState),
    /// A termination signal.
    Signal,
    /// Somebody asked the guest to power off.
    GuestAsked,
    /// A timer ran out.
    Expired(Timer),
}

/// The timers. One of each kind; arming it again replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timer {
    /// For a domain to be defined.
    Domain,
    /// For a defined domain to get a QEMU process.
    Qemu,
    /// For virt-handler to ask for the shutdown.
    Ask,
    /// For the guest to power off.
    Grace,
    /// For virt-handler to delete the domain.
    Delete,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Start a timer.
    Arm(Timer, Duration),
    /// Tell virt-handler, through the metadata, that the VM is to end.
    MarkGracefulShutdown,
    /// Ask the guest to power off.
    AskGuest,
    /// End QEMU.
    Kill,
    /// Run the hooks of the end, once, beside what else happens.
    RunShutdownHooks,
    /// Nothing is left to do.
    Exit(Ending),
}

/// How the launcher ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// As it should: exit code 0.
    Clean,
    /// No domain appeared in time.
    NoDomain(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Watching,
    Stopping,
    Ended,
    Over,
}

/// The policy and what it remembers.
#[derive(Debug)]
pub struct Lifetime {
    terms: Terms,
    phase: Phase,
    state: VmState,
    guest_asked: bool,
    hooks_ran: bool,
}

impl Lifetime {
    /// The beginning, with what to do first.
    pub fn begin(terms: Terms) -> (Lifetime, Vec<Step>) {
        let lifetime = Lifetime {
            terms,
            phase: Phase::Waiting,
            state: VmState::Absent,
            guest_asked: false,
            hooks_ran: false,
        };
        (lifetime, vec![Step::Arm(Timer::Domain, terms.qemu_timeout)])
    }

    /// What to do now.
    pub fn observe(&mut self, input: Input) -> Vec<Step> {
        if self.phase == Phase::Over {
            return Vec::new();
        }
        match input {
            Input::State(state) => self.observe_state(state),
            Input::Signal => self.observe_signal(),
            Input::GuestAsked => {
                self.guest_asked = true;
                Vec::new()
            }
            Input::Expired(timer) => self.observe_expired(timer),
        }
    }

    fn observe_state(&mut self, state: VmState) -> Vec<Step> {
        self.state = state;
        match (self.phase, state) {
            (_, VmState::Gone) => self.exit(Ending::Clean),
            (Phase::Waiting | Phase::Ended, VmState::Active) => {
                self.phase = Phase::Watching;
                Vec::new()
            }
            (Phase::Waiting, VmState::Defined) => {
                self.phase = Phase::Watching;
                vec![Step::Arm(Timer::Qemu, self.terms.qemu_timeout)]
            }
            (Phase::Stopping, VmState::Down) => self.exit(Ending::Clean),
            (Phase::Waiting | Phase::Watching, VmState::Down) => self.vm_ended(),
            _ => Vec::new(),
        }
    }

    /// virt-handler is to learn the reason and then deletes the domain; alone, nobody would.
    fn vm_ended(&mut self) -> Vec<Step> {
        if self.terms.standalone {
            return self.exit(Ending::Clean);
        }
        self.phase = Phase::Ended;
        let mut steps = self.hooks();
        steps.push(Step::Arm(Timer::Delete, HANDLER_DELETES_WITHIN));
        steps
    }

    fn observe_signal(&mut self) -> Vec<Step> {
        match (self.phase, self.state) {
            (Phase::Stopping | Phase::Over, _) => Vec::new(),
            (Phase::Watching, VmState::Active) => self.stop(),
            _ => self.exit(Ending::Clean),
        }
    }

    fn stop(&mut self) -> Vec<Step> {
        self.phase = Phase::Stopping;
        let mut steps = vec![Step::MarkGracefulShutdown];
        match (self.guest_asked, self.terms.standalone) {
            (true, _) => {}
            (false, true) => steps.extend(self.ask()),
            (false, false) => steps.push(Step::Arm(Timer::Ask, HANDLER_ASKS_WITHIN)),
        }
        steps.push(Step::Arm(Timer::Grace, self.terms.grace_period));
        steps
    }

    fn ask(&mut self) -> Option<Step> {
        (!std::mem::replace(&mut self.guest_asked, true)).then_some(Step::AskGuest)
    }

    fn observe_expired(&mut self, timer: Timer) -> Vec<Step> {
        match (timer, self.phase) {
            (Timer::Domain, Phase::Waiting) => self.exit(Ending::NoDomain(self.terms.qemu_timeout)),
            (Timer::Qemu, Phase::Watching) if self.state == VmState::Defined => self.vm_ended(),
            (Timer::Ask, Phase::Stopping) => self.ask().into_iter().collect(),
            (Timer::Grace, Phase::Stopping) => {
                vec![Step::Kill, Step::Arm(Timer::Grace, KILL_AGAIN)]
            }
            (Timer::Delete, Phase::Ended) => self.exit(Ending::Clean),
            _ => Vec::new(),
        }
    }

    fn exit(&mut self, ending: Ending) -> Vec<Step> {
        self.phase = Phase::Over;
        let mut steps = self.hooks();
        steps.push(Step::Exit(ending));
        steps
    }

    fn hooks(&mut self) -> Vec<Step> {
        let first = !std::mem::replace(&mut self.hooks_ran, true);
        first
            .then_some(Step::RunShutdownHooks)
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
#[path = "lifetime_tests.rs"]
mod tests;
