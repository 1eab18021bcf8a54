//! Drives the lifetime policy: feeds it events and expired timers, and carries out its steps.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::shutdown_hooks::ShutdownHooks;
use crate::config::Config;
use crate::launcher_lifetime::{Ending, Input, Lifetime, LifetimeConfig, Step, Timer};
use crate::manager::{Command, Manager, Phase, Role, VmContext};
use crate::named_timers::NamedTimers;
use crate::qemu_process;

/// How often a failing shutdown request is tried: libvirt's daemon may be restarting.
const SHUTDOWN_ATTEMPTS: u32 = 5;
const SHUTDOWN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of asking libvirt whether the guest is here.
const STATE_TIMEOUT: Duration = Duration::from_secs(2);

/// The configuration of the policy.
pub(super) fn lifetime_config(config: &Config, standalone: bool) -> LifetimeConfig {
    LifetimeConfig {
        qemu_timeout: config.flags.qemu_timeout,
        grace_period: Duration::from_secs(config.flags.grace_period_seconds),
        standalone,
    }
}

/// Carries out the lifetime policy for one VM.
pub(super) struct LifetimeDriver {
    pub(super) vm: Arc<VmContext>,
    pub(super) manager: Manager,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) signal: watch::Receiver<bool>,
    pub(super) shutdown_hooks: ShutdownHooks,
    pub(super) pid_file: PathBuf,
}

impl LifetimeDriver {
    /// Runs until the launcher is to exit, including the shutdown hooks.
    pub(super) async fn run(mut self, config: LifetimeConfig) -> Ending {
        let (mut lifetime, mut steps) = Lifetime::begin(config);
        let mut timers = NamedTimers::default();
        let phase = *self.phase.borrow_and_update();
        steps.extend(lifetime.observe(Input::Phase(phase)));
        loop {
            for step in steps {
                match step {
                    Step::Exit(ending) => {
                        self.shutdown_hooks.finish().await;
                        return ending;
                    }
                    Step::RunShutdownHooks => self.shutdown_hooks.start(),
                    Step::Arm(timer, after) => timers.arm(timer, after),
                    other => self.run_step(other),
                }
            }
            let input = self.next(&mut timers).await;
            tracing::debug!(?input, "lifetime");
            steps = lifetime.observe(input);
        }
    }

    async fn next(&mut self, timers: &mut NamedTimers<Timer>) -> Input {
        let input = tokio::select! {
            Ok(()) = self.phase.changed() => Input::Phase(*self.phase.borrow_and_update()),
            Ok(()) = self.signal.changed() => Input::Signal { is_guest_here: true },
            () = self.vm.power_off_requested.notified() => Input::PowerOffRequested,
            () = self.vm.deleted_before_definition.notified() => Input::DeletedBeforeDefinition,
            () = self.vm.target_cleanup.notified() => Input::CleanUpTarget { is_guest_here: false },
            timer = timers.expired() => self.timer_input(timer),
        };
        match input {
            // If libvirt gives no answer, the guest may run here, so it is shut down and not killed.
            Input::Signal { .. } => Input::Signal {
                is_guest_here: self.has_guest().await.unwrap_or(true),
            },
            Input::CleanUpTarget { .. } => Input::CleanUpTarget {
                is_guest_here: self.has_guest().await.unwrap_or(false),
            },
            other => other,
        }
    }

    /// Whether the guest is here: it has booted here or has arrived, also during post-copy, when a part of its memory
    /// is still on the source. After a failed post-copy it cannot run here. `None` if libvirt gives no answer.
    async fn has_guest(&self) -> Option<bool> {
        if !self.is_target() {
            return Some(true);
        }
        let domain = tokio::time::timeout(STATE_TIMEOUT, self.vm.client.lookup_with_state()).await;
        match domain {
            Ok(Ok(Some((_, state)))) => Some(
                state.is_active()
                    && !state.is_before_arrival()
                    && state.reason != libvirt::Reason::PostcopyFailed,
            ),
            Ok(Ok(None)) => Some(false),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    fn is_target(&self) -> bool {
        self.vm.driver_state().role == Role::Target
    }

    /// The input for an expired timer. If no domain appears in a migration's target, that is not a failure of this pod.
    fn timer_input(&self, timer: Timer) -> Input {
        match timer {
            Timer::DomainDefined if self.is_target() => Input::CleanUpTarget {
                is_guest_here: false,
            },
            timer => Input::Expired(timer),
        }
    }

    fn run_step(&self, step: Step) {
        match step {
            Step::MarkGracefulShutdown => {
                self.vm.metadata.mark_for_graceful_shutdown();
                tracing::info!("marked for graceful shutdown");
            }
            Step::RequestPowerOff => self.request_power_off(),
            Step::Kill => self.kill(),
            Step::Arm(..) | Step::RunShutdownHooks | Step::Exit(_) => {}
        }
    }

    fn request_power_off(&self) {
        let manager = self.manager.clone();
        tokio::spawn(async move {
            tracing::info!("asking the guest to power off");
            for _ in 0..SHUTDOWN_ATTEMPTS {
                let Err(error) = manager.run(Command::Shutdown).await else {
                    return;
                };
                tracing::error!(
                    reason = error.message(),
                    "could not ask the guest to power off"
                );
                tokio::time::sleep(SHUTDOWN_RETRY_INTERVAL).await;
            }
        });
    }

    fn kill(&self) {
        let (manager, pid_file) = (self.manager.clone(), self.pid_file.clone());
        tokio::spawn(async move {
            tracing::info!("killing the VM");
            let Err(error) = manager.run(Command::Kill).await else {
                return;
            };
            tracing::error!(
                reason = error.message(),
                "libvirt could not end the VM, sending SIGTERM to QEMU"
            );
            if let Err(error) = qemu_process::terminate(&pid_file) {
                tracing::error!(reason = %error, "could not end QEMU");
            }
        });
    }
}
