//! The launcher's process from start to end: takes the lock, collects hooks, builds the launcher, waits for its end, and shuts it down.

mod build_from_config;
mod composition;
mod hook_collection;
mod lifetime_driver;
mod shutdown;
mod standalone_vmi;

use std::sync::Arc;

use anyhow::{Context, bail};
use hook_host::Reason;
use kubevirt_api::vmi::Vmi;
use tokio::sync::watch;

use crate::config::Config;
use crate::hooks_trait::Hooks;
use crate::instance_lock::InstanceLock;
use crate::libvirt_daemons::Daemons;
use crate::lifetime::Ending;
use crate::manager::{Identity, VmContext};
use crate::{init_dirs, termination_signals};
pub use composition::{Composition, RunningLauncher};
use lifetime_driver::LifetimeDriver;

/// Runs a launcher from start to end.
pub async fn run(config: Config, early: termination_signals::EarlySignals) -> anyhow::Result<()> {
    let mut signal = termination_signals::listen(&early).context("listening for signals")?;
    let standalone = standalone_vmi::read(&config)?;
    let identity = standalone_vmi::identity(&config, standalone.as_ref());
    // Taken before anything is written: another launcher may be using these directories.
    let _lock = InstanceLock::acquire(&config.paths, config.libvirt_uri.is_none())?;
    init_dirs::initialize(&config.paths)?;
    if config.flags.simulate_crash {
        bail!("simulated crash, as --simulate-crash asks for");
    }
    let hooks = tokio::select! {
        hooks = hook_collection::collect(&config, &identity.namespace) => Arc::new(hooks?) as Arc<dyn Hooks>,
        _ = signal.wait_for(|signalled| *signalled) => return Ok(()),
    };
    let ending = match run_with(&config, &identity, standalone, &hooks, signal).await {
        Ok(ending) => ending,
        Err(error) => {
            // The lifetime driver has run the shutdown hooks, unless the launcher failed; then they run here.
            run_shutdown_hooks(&hooks, &identity).await;
            return Err(error);
        }
    };
    match ending {
        Ending::Clean => Ok(()),
        Ending::UnusedTarget => {
            tracing::info!("the migration to this pod did not take place; the launcher ends");
            Ok(())
        }
        Ending::NoDomain(waited) => {
            bail!("no domain was defined within {waited:?} (--qemu-timeout)")
        }
    }
}

/// Builds the launcher, runs it until its end, and shuts it down.
async fn run_with(
    config: &Config,
    identity: &Identity,
    standalone: Option<Vmi>,
    hooks: &Arc<dyn Hooks>,
    mut signal: watch::Receiver<bool>,
) -> anyhow::Result<Ending> {
    let mut launcher = tokio::select! {
        launcher = LauncherWithDaemons::build(config, identity.clone(), Arc::clone(hooks)) => launcher?,
        _ = signal.wait_for(|signalled| *signalled) => {
            run_shutdown_hooks(hooks, identity).await;
            return Ok(Ending::Clean);
        }
    };
    let is_standalone = standalone.is_some();
    let ending = launcher.run_until_end(config, standalone, signal).await;
    launcher.shut_down(is_standalone).await;
    ending
}

/// Runs the shutdown hooks.
async fn run_shutdown_hooks(hooks: &Arc<dyn Hooks>, identity: &Identity) {
    hooks.shutdown(&identity.invocation(Reason::Shutdown)).await;
    hooks.log_calls("ended");
}

/// A running launcher and the libvirt daemons that it started, if any.
struct LauncherWithDaemons {
    running: RunningLauncher,
    daemons: Option<Daemons>,
}

impl LauncherWithDaemons {
    fn vm(&self) -> &Arc<VmContext> {
        self.running.manager.vm()
    }

    /// Waits until the lifetime policy ends the launcher, or a task fails.
    async fn run_until_end(
        &mut self,
        config: &Config,
        standalone: Option<Vmi>,
        signal: watch::Receiver<bool>,
    ) -> anyhow::Result<Ending> {
        let is_standalone = standalone.is_some();
        let standalone_run = standalone_vmi::run(&self.running.manager, standalone);
        let driver = LifetimeDriver {
            vm: Arc::clone(self.vm()),
            manager: self.running.manager.clone(),
            phase: self.running.phase.clone(),
            signal,
            pid_file: config.paths.qemu_pid_file(&self.vm().identity.domain),
        };
        let lifetime_config = lifetime_driver::lifetime_config(config, is_standalone);
        tokio::select! {
            ending = driver.run(lifetime_config) => Ok(ending),
            failure = standalone_run => failure,
            failure = self.running.tasks.failure() => Err(failure.into()),
        }
    }
}
