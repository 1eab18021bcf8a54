//! How long the launcher lives, and how it ends the VM when it must. Pure.
//!
//! ```text
//!  [waiting] ──domain──▶ [watching] ──QEMU ended──▶ [ended] ──domain gone──▶ exit 0
//!      │ │                    │ └─────────domain gone──────────────────────▶ exit 0
//!      │ └─time is up─▶ exit 1│                        └──signal, time is up─▶ exit 0
//!      ├─clean-up of a migration's target─▶ exit 0
//!      └─signal─▶ exit 0      └─signal─▶ [stopping]: virt-handler, or else the launcher, asks the guest to power off;
//!                                        QEMU is killed when the grace period ends, or at once while the VM is still
//!                                        arriving from another pod ─▶ exit 0
//! ```
//!
//! virt-handler controls a VM's end: it asks for the shutdown and deletes the domain, and the launcher waits for that.
//! Without a virt-handler, or when it does not act in time, the launcher acts itself.

use std::time::Duration;

use crate::manager::Phase;

/// virt-handler has this long to ask for a shutdown after the signal.
const HANDLER_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// virt-handler has this long to delete the domain of a VM that ended.
const HANDLER_DELETE_TIMEOUT: Duration = Duration::from_secs(15);
/// A kill is repeated until the domain is down.
const KILL_RETRY: Duration = Duration::from_secs(5);

/// The configuration of the policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// `--qemu-timeout`.
    pub qemu_timeout: Duration,
    /// `--grace-period-seconds`.
    pub grace_period: Duration,
    /// There is no virt-handler.
    pub standalone: bool,
}

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The domain's state.
    State(Phase),
    /// A termination signal.
    Signal {
        /// The guest is here: it has arrived, or booted here.
        arrived: bool,
    },
    /// Somebody asked the guest to power off.
    GuestAsked,
    /// virt-handler gives up the migration to this pod.
    CleanUpTarget {
        /// The guest is here: it has arrived, or booted here.
        arrived: bool,
    },
    /// A timer ran out.
    Expired(Timer),
}

/// The timers. One of each kind; arming it again replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
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

/// What the launcher has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
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
pub(crate) enum Ending {
    /// As it should: exit code 0.
    Clean,
    /// The VM was to arrive by a migration that does not take place: exit code 0.
    UnusedTarget,
    /// No domain appeared in time.
    NoDomain(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Watching,
    Stopping,
    Ended,
    Over,
}

/// The policy and what it remembers.
#[derive(Debug)]
pub(crate) struct Lifetime {
    terms: Terms,
    stage: Stage,
    state: Phase,
    guest_asked: bool,
    hooks_ran: bool,
}

impl Lifetime {
    /// The beginning, with what to do first.
    pub(crate) fn begin(terms: Terms) -> (Lifetime, Vec<Step>) {
        let lifetime = Lifetime {
            terms,
            stage: Stage::Waiting,
            state: Phase::Absent,
            guest_asked: false,
            hooks_ran: false,
        };
        (lifetime, vec![Step::Arm(Timer::Domain, terms.qemu_timeout)])
    }

    /// What to do now.
    pub(crate) fn observe(&mut self, input: Input) -> Vec<Step> {
        if self.stage == Stage::Over {
            return Vec::new();
        }
        match input {
            Input::State(state) => self.observe_state(state),
            Input::Signal { arrived } => self.observe_signal(arrived),
            Input::GuestAsked => {
                self.guest_asked = true;
                Vec::new()
            }
            Input::CleanUpTarget { arrived } => self.clean_up_target(arrived),
            Input::Expired(timer) => self.observe_expired(timer),
        }
    }

    fn observe_state(&mut self, state: Phase) -> Vec<Step> {
        self.state = state;
        match (self.stage, state) {
            (_, Phase::Gone) => self.exit(Ending::Clean),
            (Stage::Waiting | Stage::Ended, Phase::Active) => {
                self.stage = Stage::Watching;
                Vec::new()
            }
            (Stage::Waiting, Phase::Defined) => {
                self.stage = Stage::Watching;
                vec![Step::Arm(Timer::Qemu, self.terms.qemu_timeout)]
            }
            (Stage::Stopping, Phase::Down) => self.exit(Ending::Clean),
            (Stage::Waiting | Stage::Watching, Phase::Down) => self.vm_ended(),
            _ => Vec::new(),
        }
    }

    /// virt-handler reads the reason and deletes the domain; a standalone launcher exits at once.
    fn vm_ended(&mut self) -> Vec<Step> {
        if self.terms.standalone {
            return self.exit(Ending::Clean);
        }
        self.stage = Stage::Ended;
        let mut steps = self.hooks();
        steps.push(Step::Arm(Timer::Delete, HANDLER_DELETE_TIMEOUT));
        steps
    }

    /// A VM that is still arriving runs on at the source once its migration to this pod fails. With a graceful shutdown it
    /// would arrive meanwhile, and be shut down.
    fn observe_signal(&mut self, arrived: bool) -> Vec<Step> {
        match (self.stage, self.state) {
            (Stage::Stopping | Stage::Over, _) => Vec::new(),
            (Stage::Watching, Phase::Active) if !arrived => self.kill(),
            (Stage::Watching, Phase::Active) => self.stop(),
            _ => self.exit(Ending::Clean),
        }
    }

    /// A VM that has arrived runs nowhere else, so it is not ended: the pod's deletion does that, with grace.
    fn clean_up_target(&mut self, arrived: bool) -> Vec<Step> {
        match (self.stage, self.state) {
            (Stage::Waiting, _) => self.exit(Ending::UnusedTarget),
            (Stage::Watching, Phase::Active) if !arrived => self.kill(),
            _ => Vec::new(),
        }
    }

    fn kill(&mut self) -> Vec<Step> {
        self.stage = Stage::Stopping;
        vec![Step::Kill, Step::Arm(Timer::Grace, KILL_RETRY)]
    }

    fn stop(&mut self) -> Vec<Step> {
        self.stage = Stage::Stopping;
        let mut steps = vec![Step::MarkGracefulShutdown];
        match (self.guest_asked, self.terms.standalone) {
            (true, _) => {}
            (false, true) => steps.extend(self.ask()),
            (false, false) => steps.push(Step::Arm(Timer::Ask, HANDLER_SHUTDOWN_TIMEOUT)),
        }
        steps.push(Step::Arm(Timer::Grace, self.terms.grace_period));
        steps
    }

    fn ask(&mut self) -> Option<Step> {
        (!std::mem::replace(&mut self.guest_asked, true)).then_some(Step::AskGuest)
    }

    fn observe_expired(&mut self, timer: Timer) -> Vec<Step> {
        match (timer, self.stage) {
            (Timer::Domain, Stage::Waiting) => self.exit(Ending::NoDomain(self.terms.qemu_timeout)),
            (Timer::Qemu, Stage::Watching) if self.state == Phase::Defined => self.vm_ended(),
            (Timer::Ask, Stage::Stopping) => self.ask().into_iter().collect(),
            (Timer::Grace, Stage::Stopping) => {
                vec![Step::Kill, Step::Arm(Timer::Grace, KILL_RETRY)]
            }
            (Timer::Delete, Stage::Ended) => self.exit(Ending::Clean),
            _ => Vec::new(),
        }
    }

    fn exit(&mut self, ending: Ending) -> Vec<Step> {
        self.stage = Stage::Over;
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
mod tests;
