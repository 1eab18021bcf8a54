//! Drives the lifetime policy: feeds it events and expired timers, and carries out its steps.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hook_host::Reason;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::lifetime::{Ending, Input, Lifetime, Step, Terms, Timer};
use crate::manager::{Command, Manager, Phase, Role, VmContext};
use crate::named_timers::NamedTimers;
use crate::qemu_process;

/// The shutdown request is repeated when it fails: libvirt's daemon may be restarting.
const SHUTDOWN_ATTEMPTS: u32 = 5;
const SHUTDOWN_RETRY: Duration = Duration::from_secs(1);
/// Longer than the hooks of any VM take at its end.
const SHUTDOWN_HOOKS: Duration = Duration::from_secs(120);
/// libvirt has this long to tell whether the guest is here.
const STATE_ANSWER: Duration = Duration::from_secs(2);

pub(super) fn terms(config: &Config, standalone: bool) -> Terms {
    Terms {
        qemu_timeout: config.flags.qemu_timeout,
        grace_period: Duration::from_secs(config.flags.grace_period_seconds),
        standalone,
    }
}

/// Carries out the policy for one VM.
pub(super) struct LifetimeDriver {
    pub(super) vm: Arc<VmContext>,
    pub(super) manager: Manager,
    pub(super) state: watch::Receiver<Phase>,
    pub(super) signal: watch::Receiver<bool>,
    pub(super) pid_file: PathBuf,
}

impl LifetimeDriver {
    /// Runs to the launcher's end, the hooks' included.
    pub(super) async fn run(mut self, terms: Terms) -> Ending {
        let (mut lifetime, mut steps) = Lifetime::begin(terms);
        let mut timers = NamedTimers::default();
        let mut hooks = None;
        let state = *self.state.borrow_and_update();
        steps.extend(lifetime.observe(Input::State(state)));
        loop {
            for step in steps {
                match step {
                    Step::Exit(ending) => {
                        finish(hooks).await;
                        return ending;
                    }
                    Step::RunShutdownHooks => hooks = Some(self.run_shutdown_hooks()),
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
            Ok(()) = self.state.changed() => Input::State(*self.state.borrow_and_update()),
            Ok(()) = self.signal.changed() => Input::Signal { arrived: true },
            () = self.vm.guest_asked.notified() => Input::GuestAsked,
            () = self.vm.target_cleanup.notified() => Input::CleanUpTarget { arrived: false },
            timer = timers.expired() => self.expired(timer),
        };
        match input {
            // Without an answer, a guest that may run here is shut down and not killed.
            Input::Signal { .. } => Input::Signal {
                arrived: self.has_guest().await.unwrap_or(true),
            },
            Input::CleanUpTarget { .. } => Input::CleanUpTarget {
                arrived: self.has_guest().await.unwrap_or(false),
            },
            other => other,
        }
    }

    /// Whether the guest is here: it has booted here or has arrived, or runs here before all of its memory has (post-copy).
    /// After a post-copy that failed it never can. `None` if libvirt does not tell.
    async fn has_guest(&self) -> Option<bool> {
        if !self.is_target() {
            return Some(true);
        }
        let found = tokio::time::timeout(STATE_ANSWER, self.vm.client.lookup_with_state()).await;
        match found {
            Ok(Ok(Some((_, state)))) => Some(
                state.is_active()
                    && !state.waits_for_guest()
                    && state.reason != libvirt::Reason::PostcopyFailed,
            ),
            Ok(Ok(None)) => Some(false),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    fn is_target(&self) -> bool {
        self.vm.driver_state().role == Role::Target
    }

    /// A pod that waits in vain for a migration has nothing wrong.
    fn expired(&self, timer: Timer) -> Input {
        match timer {
            Timer::Domain if self.is_target() => Input::CleanUpTarget { arrived: false },
            timer => Input::Expired(timer),
        }
    }

    fn run_step(&self, step: Step) {
        match step {
            Step::MarkGracefulShutdown => {
                self.vm.metadata.mark_for_graceful_shutdown();
                tracing::info!("marked for graceful shutdown");
            }
            Step::AskGuest => self.ask_guest(),
            Step::Kill => self.kill(),
            Step::Arm(..) | Step::RunShutdownHooks | Step::Exit(_) => {}
        }
    }

    fn ask_guest(&self) {
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
                tokio::time::sleep(SHUTDOWN_RETRY).await;
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

    fn run_shutdown_hooks(&self) -> JoinHandle<()> {
        let vm = Arc::clone(&self.vm);
        tokio::spawn(async move {
            let invocation = vm.identity.invocation(Reason::Shutdown);
            vm.hooks.shutdown(&invocation).await;
            vm.hooks.log_calls("ended");
        })
    }
}

/// The hooks' host bounds every hook; a fault of its own must not keep the launcher.
async fn finish(hooks: Option<JoinHandle<()>>) {
    let Some(hooks) = hooks else {
        return;
    };
    match tokio::time::timeout(SHUTDOWN_HOOKS, hooks).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(reason = %error, "running the hooks of the end"),
        Err(_) => tracing::error!("the hooks of the end did not end within {SHUTDOWN_HOOKS:?}"),
    }
}
