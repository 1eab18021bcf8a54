//! The launcher as a whole: configure, build, spawn, wait, drain.

mod composition;
mod hook_collection;
mod lifetime_driver;
mod run_standalone_vmi;

use std::sync::{Arc, Once};
use std::time::Duration;

use anyhow::{Context, bail};
use domain::convert::{FIRMWARE_LOG, is_firmware_logged};
use domain::migration::IncomingEdits;
use hook_host::Reason;
use hook_host::policy::permission::unreviewed_libvirt;
use kubevirt_api::vmi::Vmi;
use libvirt::HypervisorConnection;
use tokio::sync::watch;

use crate::agent::PollIntervals;
use crate::boot::boot_resources::BootResources;
use crate::boot::host_facts;
use crate::boot::image_volumes::ImageVolumes;
use crate::config::Config;
use crate::hooks_trait::Hooks;
use crate::instance_lock::InstanceLock;
use crate::jobs::AbortReason;
use crate::libvirt_client::Connect;
use crate::libvirt_daemons::{self, Daemons, DaemonsConfig};
use crate::lifetime::Ending;
use crate::manager::{Command, Identity, Phase, Role, VmContext};
use crate::{init_dirs, libvirt_migration_hook, termination_signals};
pub use composition::{Composition, RunningLauncher};
use lifetime_driver::LifetimeDriver;

/// virt-handler has this long to accept the last notification, as with KubeVirt's launcher.
const FINAL_NOTIFICATION: Duration = Duration::from_secs(45);
/// A virt-handler that has deleted the domain closes its notification socket, and knows how the VM ended.
const FINAL_NOTIFICATION_DELETED: Duration = Duration::from_secs(5);
/// A virt-handler that has given up the migration to this pod needs no notification, and closes its socket.
const FINAL_NOTIFICATION_GIVEN_UP: Duration = Duration::from_millis(500);
const FINAL_NOTIFICATION_STANDALONE: Duration = Duration::from_millis(500);
/// For commands that are under way when the launcher ends. No step may wait long for a hung daemon: the whole end takes
/// less than 3 s.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The same, with the end of a VM that runs or is being started.
const END_VM_TIMEOUT: Duration = Duration::from_secs(7);
/// The observer has this long to publish how the VM has ended.
const END_PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);
/// For the command server, the daemons and the sockets of a migration to this pod, which end concurrently.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a launcher from start to end.
pub async fn run(config: Config, early: termination_signals::EarlySignals) -> anyhow::Result<()> {
    let mut signal = termination_signals::listen(&early).context("listening for signals")?;
    let standalone = run_standalone_vmi::vmi(&config)?;
    let identity = run_standalone_vmi::identity(&config, standalone.as_ref());
    // First of all: the files written from here on may belong to another launcher.
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
            // Hooks of the end run whatever the end is.
            end_hooks(&hooks, &identity).await;
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

async fn run_with(
    config: &Config,
    identity: &Identity,
    standalone: Option<Vmi>,
    hooks: &Arc<dyn Hooks>,
    mut signal: watch::Receiver<bool>,
) -> anyhow::Result<Ending> {
    let mut launcher = tokio::select! {
        launcher = Launcher::build(config, identity.clone(), Arc::clone(hooks)) => launcher?,
        _ = signal.wait_for(|signalled| *signalled) => {
            end_hooks(hooks, identity).await;
            return Ok(Ending::Clean);
        }
    };
    let is_standalone = standalone.is_some();
    let ending = launcher.live(config, standalone, signal).await;
    launcher.drain(is_standalone).await;
    ending
}

async fn end_hooks(hooks: &Arc<dyn Hooks>, identity: &Identity) {
    hooks.shutdown(&identity.invocation(Reason::Shutdown)).await;
    hooks.log_calls("ended");
}

/// Opens connections. The first one of a launcher with hooks reports a libvirt that the dangerous set was not reviewed for.
fn connect(uri: String, has_hooks: bool) -> Connect {
    let report = Once::new();
    Arc::new(move || {
        let hypervisor = libvirt::connect(&uri)?;
        if has_hooks {
            report.call_once(|| report_unreviewed(&*hypervisor));
        }
        Ok(hypervisor)
    })
}

fn report_unreviewed(hypervisor: &dyn HypervisorConnection) {
    match hypervisor.version() {
        Ok(version) => {
            if let Some(warning) = unreviewed_libvirt(version.0) {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::warn!(%error, "libvirt's version is not known"),
    }
}

/// A launcher that runs, with the daemons that it started.
struct Launcher {
    running: RunningLauncher,
    daemons: Option<Daemons>,
}

impl Launcher {
    /// Starts daemons and tasks in the order that KubeVirt expects; when it returns, the launcher is ready.
    async fn build(
        config: &Config,
        identity: Identity,
        hooks: Arc<dyn Hooks>,
    ) -> anyhow::Result<Launcher> {
        init_dirs::initialize_disk_data(&config.paths)?;
        if config.libvirt_uri.is_none() {
            libvirt_migration_hook::hook_link::install(
                config.flags.libvirt_hook_server_and_client,
            )?;
        }
        let daemons = start_daemons(config, &identity).await?;
        let libvirt_uri = uri(config, daemons.as_ref());
        let composition = Composition {
            paths: config.paths.clone(),
            identity,
            pod_name: std::env::var("POD_NAME").unwrap_or_default(),
            connect: connect(libvirt_uri.clone(), config.flags.hook_sidecars > 0),
            connect_target: Arc::new(libvirt::connect),
            libvirt_uri,
            hooks,
            boot_resources: boot_resources(config),
            poll_intervals: poll_intervals(config),
            vm_stats_collector: config.flags.vm_stats_collector,
            migration_hooks: config.flags.libvirt_hook_server_and_client,
            lost_logs: daemons.as_ref().and_then(Daemons::lost_logs),
            migration_log: daemons
                .as_ref()
                .map(Daemons::migration_log)
                .unwrap_or_default(),
        };
        Ok(Launcher {
            running: composition.start().await?,
            daemons,
        })
    }

    fn vm(&self) -> &Arc<VmContext> {
        self.running.manager.vm()
    }

    /// Lives until there is nothing left to do.
    async fn live(
        &mut self,
        config: &Config,
        standalone: Option<Vmi>,
        signal: watch::Receiver<bool>,
    ) -> anyhow::Result<Ending> {
        let is_standalone = standalone.is_some();
        let standalone_run = run_standalone_vmi::run(&self.running.manager, standalone);
        let driver = LifetimeDriver {
            vm: Arc::clone(self.vm()),
            manager: self.running.manager.clone(),
            state: self.running.state.clone(),
            signal,
            pid_file: config.paths.qemu_pid_file(&self.vm().identity.domain),
        };
        let terms = lifetime_driver::terms(config, is_standalone);
        tokio::select! {
            ending = driver.run(terms) => Ok(ending),
            failure = standalone_run => failure,
            failure = self.running.tasks.failure() => Err(failure.into()),
        }
    }

    /// Ends the VM, also one that is being started: no VM outlives its launcher.
    async fn end_vm(&self) {
        if let Err(error) = self.running.manager.run(Command::Kill).await {
            tracing::warn!(reason = error.message(), "could not end the VM");
        }
        self.running.manager.close().await;
        let ended = self.vm().start_report.ended();
        if tokio::time::timeout(END_PUBLISH_TIMEOUT, ended)
            .await
            .is_err()
        {
            tracing::warn!("libvirt has not reported the end of the VM");
        }
    }

    async fn close(&self) {
        let phase = *self.running.state.borrow();
        let closed = match phase {
            Phase::Down | Phase::Gone => {
                tokio::time::timeout(CLOSE_TIMEOUT, self.running.manager.close()).await
            }
            _ => tokio::time::timeout(END_VM_TIMEOUT, self.end_vm()).await,
        };
        if closed.is_err() {
            tracing::warn!("a command was still under way when the launcher ended");
        }
    }

    async fn drain(self, standalone: bool) {
        let vm = Arc::clone(self.vm());
        let deadline = match standalone {
            true => FINAL_NOTIFICATION_STANDALONE,
            false if vm.driver_state().given_up => FINAL_NOTIFICATION_GIVEN_UP,
            false if vm.driver_state().deleted => FINAL_NOTIFICATION_DELETED,
            false => FINAL_NOTIFICATION,
        };
        self.vm().jobs.end(AbortReason::Exit).await;
        self.close().await;
        let is_target = vm.driver_state().role == Role::Target;
        tokio::select! {
            is_flushed = vm.notifier.flush(deadline) => if !is_flushed && !standalone {
                tracing::warn!("the last notifications did not reach virt-handler");
            },
            // A virt-handler that was away when the migration failed comes back, asks this, and then takes no notification.
            () = vm.target_cleanup.notified(), if is_target => {}
        }
        // Before the daemon ends, so that nothing connects to it again.
        self.vm().client.stop();
        self.running.tasks.abort();
        let daemons = async {
            if let Some(daemons) = self.daemons {
                daemons.shutdown().await;
            }
        };
        let sockets = vm.close_target_sockets();
        let stop = async { tokio::join!(self.running.server.stop(), daemons, sockets) };
        if tokio::time::timeout(STOP_TIMEOUT, stop).await.is_err() {
            tracing::warn!("the daemons, or the sockets of a migration, were not closed in time");
        }
        tracing::info!("exiting");
    }
}

async fn start_daemons(config: &Config, identity: &Identity) -> anyhow::Result<Option<Daemons>> {
    if config.libvirt_uri.is_some() {
        return Ok(None);
    }
    let environment = |name: &str| std::env::var(name).ok();
    let filters = &config.flags.libvirt_log_filters;
    let daemons = DaemonsConfig {
        firmware_log: is_firmware_logged(config.verbosity.into())
            .then(|| config.paths.private.join(FIRMWARE_LOG)),
        ..DaemonsConfig::new(&config.paths, &identity.domain, filters, environment)
    };
    Ok(Some(libvirt_daemons::start(&daemons).await?))
}

fn uri(config: &Config, daemons: Option<&Daemons>) -> String {
    match (&config.libvirt_uri, daemons) {
        (Some(uri), _) => uri.clone(),
        (None, Some(daemons)) => daemons.uri().to_owned(),
        (None, None) => String::new(),
    }
}

fn poll_intervals(config: &Config) -> PollIntervals {
    let flags = &config.flags;
    PollIntervals {
        system: flags.qemu_agent_sys_interval,
        filesystems: flags.qemu_agent_file_interval,
        users: flags.qemu_agent_user_interval,
        version: flags.qemu_agent_version_interval,
        freeze_status: flags.qemu_fsfreeze_status_interval,
    }
}

fn boot_resources(config: &Config) -> BootResources {
    let edits = IncomingEdits {
        renames_ordinal_taps: config.flags.upgrade_ordinal_ifaces,
        replaces_vgpu: config.flags.vgpu_dedicated_hook,
    };
    BootResources {
        image_volumes: (config.flags.image_volume)
            .then(|| ImageVolumes::kubevirt(&config.paths.container_disks)),
        test_driver: config.is_test_driver(),
        incoming_edits: (config.flags.libvirt_hook_server_and_client).then_some(edits),
        ..BootResources::new(
            &config.paths,
            host_facts::probe(config),
            config.flags.disk_memory_limit,
        )
    }
}
