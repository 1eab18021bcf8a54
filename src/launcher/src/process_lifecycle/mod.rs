//! The launcher's process from start to end: takes the lock, collects hooks, builds the launcher, waits for its end,
//! and shuts it down.

mod composition;
mod hook_collection;
mod hooks_beside_daemons;
mod launcher_from_config;
mod lifetime_driver;
mod refused_start;
mod shutdown;
mod shutdown_hooks;
mod standalone_vmi;

use std::sync::{Arc, OnceLock};

use anyhow::{Context, bail};
use kubevirt_api::vmi::Vmi;
use tokio::sync::watch;

use crate::config::{Config, NamedVm};
use crate::hooks_trait::Hooks;
use crate::instance_lock::InstanceLock;
use crate::launcher_lifetime::Ending;
use crate::libvirt_daemons::Daemons;
use crate::manager::{Identity, VmContext};
use crate::{init_dirs, termination_signals};
pub use composition::{Composition, RunningLauncher};
use lifetime_driver::LifetimeDriver;
use refused_start::RefusedStart;
use shutdown_hooks::ShutdownHooks;

/// Runs a launcher from start to end.
pub async fn run(config: Config, early: termination_signals::EarlySignals) -> anyhow::Result<()> {
    let mut signal = termination_signals::listen(&early).context("listening for signals")?;
    let standalone = standalone_vmi::read(&config)?;
    let identity = standalone_vmi::identity(&config, standalone.as_ref());
    // Who tests crash loops wants them to be short.
    let has_virt_handler =
        standalone.is_none() && !identity.name.is_empty() && !config.flags.simulate_crash;
    let refuse = async |error: anyhow::Error, signal: &watch::Receiver<bool>| {
        if has_virt_handler {
            let refused = RefusedStart {
                paths: &config.paths,
                identity: &identity,
                error: &error,
            };
            refused.tell(signal.clone()).await;
        }
        error
    };
    // Taken before anything is written: another launcher may be using these directories.
    let _lock = match InstanceLock::acquire(&config.paths, config.libvirt_uri.is_none()) {
        Ok(lock) => lock,
        Err(error) => return Err(refuse(error.into(), &signal).await),
    };
    if let Err(error) = prepare(&config) {
        return Err(refuse(error, &signal).await);
    }
    // Set when the hooks are collected: from then on they are told of the end.
    let shutdown_hooks = OnceLock::new();
    let launcher = tokio::select! {
        launcher = start(&config, &identity, &shutdown_hooks) => Some(launcher),
        _ = signal.wait_for(|signalled| *signalled) => None,
    };
    let ending = match launcher {
        Some(Ok((launcher, shutdown_hooks))) => {
            launcher
                .run(&config, standalone, signal, &shutdown_hooks)
                .await
        }
        Some(Err(error)) => {
            if let Some(hooks) = shutdown_hooks.get() {
                hooks.start();
            }
            Err(refuse(error, &signal).await)
        }
        None => Ok(Ending::Clean),
    };
    // Runs them if the launcher was not built or failed; otherwise they have run.
    if let Some(hooks) = shutdown_hooks.get() {
        hooks.finish().await;
    }
    result_of(ending?)
}

/// What comes before hooks are collected and libvirt's daemons are started.
fn prepare(config: &Config) -> anyhow::Result<()> {
    init_dirs::initialize(&config.paths)?;
    if config.flags.simulate_crash {
        bail!("simulated crash, as --simulate-crash asks for");
    }
    Ok(())
}

/// Collects the hooks while the daemons start, and builds the launcher.
async fn start(
    config: &Config,
    identity: &Identity,
    shutdown_hooks: &OnceLock<ShutdownHooks>,
) -> anyhow::Result<(LauncherWithDaemons, ShutdownHooks)> {
    let collection = async {
        let hooks = hook_collection::collect(config, &identity.namespace).await?;
        let hooks: Arc<dyn Hooks> = Arc::new(hooks);
        let new = || ShutdownHooks::new(Arc::clone(&hooks), identity.clone());
        let shutdown_hooks = shutdown_hooks.get_or_init(new).clone();
        Ok((hooks, shutdown_hooks))
    };
    let start = launcher_from_config::start_daemons(config, identity);
    let end = async |daemons: Option<Daemons>| {
        if let Some(daemons) = daemons {
            daemons.shutdown().await;
        }
    };
    let ((hooks, shutdown_hooks), daemons) =
        hooks_beside_daemons::both(collection, start, end).await?;
    let launcher = LauncherWithDaemons::build(config, identity.clone(), hooks, daemons).await?;
    Ok((launcher, shutdown_hooks))
}

/// Tells virt-handler that the VM is not started because the launcher's configuration is invalid.
pub async fn refuse_configuration(
    vm: &NamedVm,
    error: &anyhow::Error,
    early: termination_signals::EarlySignals,
) -> anyhow::Result<()> {
    let signal = termination_signals::listen(&early).context("listening for signals")?;
    let paths = vm.paths();
    let _lock = InstanceLock::acquire(&paths, false)?;
    let refused = RefusedStart {
        paths: &paths,
        identity: &Identity::new(&vm.namespace, &vm.name, &vm.uid),
        error,
    };
    refused.tell(signal).await;
    Ok(())
}

/// The result of a launcher that has ended.
fn result_of(ending: Ending) -> anyhow::Result<()> {
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

/// Runs a launcher without daemons until its end, as [`run`] does. For tests, which compose it on a fake libvirt.
pub async fn run_composed(
    launcher: RunningLauncher,
    config: &Config,
    signal: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let vm = launcher.manager.vm();
    let shutdown_hooks = ShutdownHooks::new(Arc::clone(&vm.hooks), vm.identity.clone());
    let launcher = LauncherWithDaemons {
        running: launcher,
        daemons: None,
    };
    let ending = launcher.run(config, None, signal, &shutdown_hooks).await;
    shutdown_hooks.finish().await;
    result_of(ending?)
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

    /// Runs until the end, and shuts down. The shutdown hooks have run when it returns, unless it fails.
    async fn run(
        mut self,
        config: &Config,
        standalone: Option<Vmi>,
        signal: watch::Receiver<bool>,
        shutdown_hooks: &ShutdownHooks,
    ) -> anyhow::Result<Ending> {
        let is_standalone = standalone.is_some();
        let ending = self
            .run_until_end(config, standalone, signal, shutdown_hooks.clone())
            .await;
        if let Err(error) = &ending {
            self.vm().notifier.warning(&refused_start::event_of(error));
        }
        self.shut_down(is_standalone).await;
        ending
    }

    /// Waits until the lifetime policy ends the launcher, or a task fails.
    async fn run_until_end(
        &mut self,
        config: &Config,
        standalone: Option<Vmi>,
        signal: watch::Receiver<bool>,
        shutdown_hooks: ShutdownHooks,
    ) -> anyhow::Result<Ending> {
        let is_standalone = standalone.is_some();
        let standalone_run = standalone_vmi::run(&self.running.manager, standalone);
        let driver = LifetimeDriver {
            vm: Arc::clone(self.vm()),
            manager: self.running.manager.clone(),
            phase: self.running.phase.clone(),
            signal,
            shutdown_hooks,
            pid_file: config.paths.qemu_pid_file(&self.vm().identity.domain),
        };
        let lifetime_config = lifetime_driver::lifetime_config(config, is_standalone);
        tokio::select! {
            ending = driver.run(lifetime_config) => Ok(ending),
            failure = standalone_run => failure,
            failure = self.running.tasks.failure() => Err(failure.into()),
            failure = self.running.server.failure() => Err(failure),
        }
    }
}
