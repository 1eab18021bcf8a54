//! The lifetime policy: decides when the launcher exits, and when it ends the VM itself. Pure.
//!
//! ```text
//!  [waiting] ──domain──▶ [watching] ──QEMU ended──▶ [ended] ──domain gone──▶ exit 0
//!      │ │                    │ └─────────domain gone──────────────────────▶ exit 0
//!      │ └─time is up─▶ exit 1│                        └──signal, time is up─▶ exit 0
//!      ├─clean-up of a migration's target─▶ exit 0
//!      ├─delete of a VM that could not start─▶ exit 0
//!      └─signal─▶ exit 0      └─signal─▶ [stopping]: virt-handler, or else the launcher, asks the guest to power off;
//!                                        QEMU is killed when the grace period ends, or at once while the VM is still
//!                                        arriving from another pod ─QEMU ended─▶ exit 0, or
//!                                        [stopped] if virt-handler asked ─domain gone, time is up─▶ exit 0
//! ```
//!
//! virt-handler controls the end of a VM: it requests the shutdown and deletes the domain, and the launcher waits for
//! that. If there is no virt-handler, or it does not act in time, the launcher acts itself.

use std::time::Duration;

use crate::manager::Phase;

/// How long to wait after the signal for virt-handler to request a shutdown.
const HANDLER_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for virt-handler to delete the domain of a VM that has ended.
const HANDLER_DELETE_TIMEOUT: Duration = Duration::from_secs(15);
/// The same after a signal. A virt-handler that has asked the guest to power off sends its delete when it reads how the VM
/// ended; if the launcher were gone then, the VMI would get an event `SyncFailed`.
const HANDLER_DELETE_TIMEOUT_AFTER_SIGNAL: Duration = Duration::from_secs(1);
/// How often a kill is repeated until the domain is down.
const KILL_RETRY_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No domain is defined yet.
    Waiting,
    /// The VM is being started or runs.
    Watching,
    /// The launcher ends the VM.
    Stopping,
    /// The launcher has ended the VM, and virt-handler is about to delete it.
    Stopped,
    /// The VM has ended, and virt-handler is to delete it.
    Ended,
    /// The launcher is to exit.
    Exited,
}

/// The policy and its state.
#[derive(Debug)]
pub(crate) struct Lifetime {
    config: LifetimeConfig,
    stage: Stage,
    phase: Phase,
    /// virt-handler or the launcher has asked the guest to power off.
    power_off_requested: bool,
    /// virt-handler has asked first.
    handler_acts: bool,
}

impl Lifetime {
    /// The policy at the launcher's start, with the first steps.
    pub(crate) fn begin(config: LifetimeConfig) -> (Lifetime, Vec<Step>) {
        let lifetime = Lifetime {
            config,
            stage: Stage::Waiting,
            phase: Phase::Absent,
            power_off_requested: false,
            handler_acts: false,
        };
        (
            lifetime,
            vec![Step::Arm(Timer::DomainDefined, config.qemu_timeout)],
        )
    }

    /// Takes in an input. Returns the steps to carry out.
    pub(crate) fn observe(&mut self, input: Input) -> Vec<Step> {
        if self.stage == Stage::Exited {
            return Vec::new();
        }
        match input {
            Input::Phase(phase) => self.observe_phase(phase),
            Input::Signal { is_guest_here } => self.observe_signal(is_guest_here),
            Input::PowerOffRequested => {
                self.handler_acts |= !self.power_off_requested;
                self.power_off_requested = true;
                Vec::new()
            }
            Input::DeletedBeforeDefinition if self.stage == Stage::Waiting => {
                self.exit(Ending::Clean)
            }
            Input::DeletedBeforeDefinition => Vec::new(),
            Input::CleanUpTarget { is_guest_here } => self.clean_up_target(is_guest_here),
            Input::Expired(timer) => self.observe_expired(timer),
        }
    }

    fn observe_phase(&mut self, phase: Phase) -> Vec<Step> {
        self.phase = phase;
        match (self.stage, phase) {
            (_, Phase::Gone) => self.exit(Ending::Clean),
            (Stage::Waiting | Stage::Ended, Phase::Active) => {
                self.stage = Stage::Watching;
                Vec::new()
            }
            (Stage::Waiting, Phase::Defined) => {
                self.stage = Stage::Watching;
                vec![Step::Arm(Timer::QemuStart, self.config.qemu_timeout)]
            }
            (Stage::Stopping, Phase::Down) if self.handler_acts => {
                self.stage = Stage::Stopped;
                vec![
                    Step::RunShutdownHooks,
                    Step::Arm(Timer::HandlerDelete, HANDLER_DELETE_TIMEOUT_AFTER_SIGNAL),
                ]
            }
            (Stage::Stopping, Phase::Down) => self.exit(Ending::Clean),
            (Stage::Waiting | Stage::Watching, Phase::Down) => self.observe_vm_end(),
            _ => Vec::new(),
        }
    }

    /// Waits for virt-handler, which reads the reason of the end and deletes the domain. A standalone launcher exits at
    /// once.
    fn observe_vm_end(&mut self) -> Vec<Step> {
        if self.config.standalone {
            return self.exit(Ending::Clean);
        }
        self.stage = Stage::Ended;
        vec![
            Step::RunShutdownHooks,
            Step::Arm(Timer::HandlerDelete, HANDLER_DELETE_TIMEOUT),
        ]
    }

    /// A VM that is still arriving is killed, so that its migration to this pod fails and it continues to run on the
    /// source. During a graceful shutdown it would arrive, and then be shut down.
    fn observe_signal(&mut self, is_guest_here: bool) -> Vec<Step> {
        match (self.stage, self.phase) {
            (Stage::Stopping | Stage::Stopped | Stage::Exited, _) => Vec::new(),
            (Stage::Watching, Phase::Active) if !is_guest_here => self.kill(),
            (Stage::Watching, Phase::Active) => self.stop(),
            _ => self.exit(Ending::Clean),
        }
    }

    /// A VM that has arrived runs nowhere else, so it is not killed here: the deletion of the pod shuts it down
    /// gracefully.
    fn clean_up_target(&mut self, is_guest_here: bool) -> Vec<Step> {
        match (self.stage, self.phase) {
            (Stage::Waiting, _) => self.exit(Ending::UnusedTarget),
            (Stage::Watching, Phase::Active) if !is_guest_here => self.kill(),
            _ => Vec::new(),
        }
    }

    fn kill(&mut self) -> Vec<Step> {
        self.stage = Stage::Stopping;
        vec![
            Step::Kill,
            Step::Arm(Timer::GracePeriod, KILL_RETRY_INTERVAL),
        ]
    }

    fn stop(&mut self) -> Vec<Step> {
        self.stage = Stage::Stopping;
        let mut steps = vec![Step::MarkGracefulShutdown];
        match (self.power_off_requested, self.config.standalone) {
            (true, _) => {}
            (false, true) => steps.extend(self.request_power_off()),
            (false, false) => {
                steps.push(Step::Arm(Timer::HandlerShutdown, HANDLER_SHUTDOWN_TIMEOUT))
            }
        }
        steps.push(Step::Arm(Timer::GracePeriod, self.config.grace_period));
        steps
    }

    fn request_power_off(&mut self) -> Option<Step> {
        (!std::mem::replace(&mut self.power_off_requested, true)).then_some(Step::RequestPowerOff)
    }

    fn observe_expired(&mut self, timer: Timer) -> Vec<Step> {
        match (timer, self.stage) {
            (Timer::DomainDefined, Stage::Waiting) => {
                self.exit(Ending::NoDomain(self.config.qemu_timeout))
            }
            (Timer::QemuStart, Stage::Watching) if self.phase == Phase::Defined => {
                self.observe_vm_end()
            }
            (Timer::HandlerShutdown, Stage::Stopping) => {
                self.request_power_off().into_iter().collect()
            }
            (Timer::GracePeriod, Stage::Stopping) => {
                vec![
                    Step::Kill,
                    Step::Arm(Timer::GracePeriod, KILL_RETRY_INTERVAL),
                ]
            }
            (Timer::HandlerDelete, Stage::Ended | Stage::Stopped) => self.exit(Ending::Clean),
            _ => Vec::new(),
        }
    }

    fn exit(&mut self, ending: Ending) -> Vec<Step> {
        self.stage = Stage::Exited;
        vec![Step::RunShutdownHooks, Step::Exit(ending)]
    }
}

/// The limits and the mode that the policy follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LifetimeConfig {
    /// How long to wait for a domain, and for its QEMU process: `--qemu-timeout`.
    pub qemu_timeout: Duration,
    /// How long the guest may take to power off before QEMU is killed: `--grace-period-seconds`.
    pub grace_period: Duration,
    /// Whether there is no virt-handler.
    pub standalone: bool,
}

/// An input of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The VM's phase.
    Phase(Phase),
    /// The launcher received a termination signal.
    Signal {
        /// Whether the guest is here: it has arrived, or booted here.
        is_guest_here: bool,
    },
    /// A command has asked the guest to power off.
    PowerOffRequested,
    /// virt-handler has deleted a VM of which a start has failed before its domain was defined.
    DeletedBeforeDefinition,
    /// virt-handler gives up the migration to this pod.
    CleanUpTarget {
        /// Whether the guest is here: it has arrived, or booted here.
        is_guest_here: bool,
    },
    /// A timer ran out.
    Expired(Timer),
}

/// The timers. There is one of each kind; arming it again replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// Limits the wait for a domain to be defined.
    DomainDefined,
    /// Limits the wait for a defined domain to get a QEMU process.
    QemuStart,
    /// Limits the wait for virt-handler to request the shutdown.
    HandlerShutdown,
    /// Limits the wait for the guest to power off.
    GracePeriod,
    /// Limits the wait for virt-handler to delete the domain.
    HandlerDelete,
}

/// What the launcher has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start a timer.
    Arm(Timer, Duration),
    /// Mark the VM for graceful shutdown in KubeVirt's metadata, which asks virt-handler to shut it down.
    MarkGracefulShutdown,
    /// Ask the guest to power off.
    RequestPowerOff,
    /// Kill QEMU.
    Kill,
    /// Run the shutdown hooks, concurrently with everything else, unless they run already or have run.
    RunShutdownHooks,
    /// Exit.
    Exit(Ending),
}

/// How the launcher ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The VM has ended or was never started: exit code 0.
    Clean,
    /// The migration to this pod did not take place: exit code 0.
    UnusedTarget,
    /// No domain was defined within this time: exit code 1.
    NoDomain(Duration),
}

#[cfg(test)]
mod tests;
