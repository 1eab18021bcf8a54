//! The launcher as a whole: configure, build, spawn, wait, drain.

mod supervise;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use domain::vmi::Vmi;
use hook_host::record::RecordConfig;
use hook_host::wasm::baked_dirs;
use hook_host::{Chain, CollectConfig, Compiler, Reason};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cloud_init::SecretDirectory;
use crate::command::{CommandService, Server};
use crate::config::Config;
use crate::daemons::{self, Daemons, DaemonsConfig};
use crate::disks::DiskTools;
use crate::host::IommuFd;
use crate::image_volumes::ImageVolumes;
use crate::lifetime::Ending;
use crate::manager::connection::{Connect, Connection};
use crate::manager::hooks::Hooks;
use crate::manager::preparation::Preparation;
use crate::manager::{Identity, Manager, Parts, Spawned, SyncRequest, Vm, VmState};
use crate::network::PodNetwork;
use crate::notify::{Involved, Notifier, Retry};
use crate::{directories, host, logging, qemu_watch, signals};

/// The daemon listens before it is connected to, so this is for a slow first answer.
const CONNECT: Duration = Duration::from_secs(10);
/// virt-handler has this long to take the last notification; alone, nobody listens.
const LAST_WORD: Duration = Duration::from_secs(5);
const LAST_WORD_ALONE: Duration = Duration::from_millis(500);
/// Where the launcher's image has hooks that were compiled for it.
const BAKED_HOOKS: &str = "/usr/share/virt-launcher/hook-artifacts";
/// Operations under way when the launcher ends.
const CLOSE: Duration = Duration::from_secs(5);

/// Runs a launcher from start to end.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let mut signal = signals::listen().context("listening for signals")?;
    let standalone = standalone_vmi(&config)?;
    let identity = identity(&config, standalone.as_ref());
    directories::initialize(&config.places)?;
    if config.flags.simulate_crash {
        bail!("simulated crash, as --simulate-crash asks for");
    }
    let hooks = tokio::select! {
        hooks = collect(&config, &identity.namespace) => Arc::new(hooks?) as Arc<dyn Hooks>,
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
    let launcher = tokio::select! {
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
}

fn standalone_vmi(config: &Config) -> anyhow::Result<Option<Vmi>> {
    let parse = |text: &String| Vmi::from_yaml_or_json(text.as_bytes());
    config
        .standalone_vmi
        .as_ref()
        .map(parse)
        .transpose()
        .context("STANDALONE_VMI")
}

/// A launcher that is started by hand with a VMI needs no flags to tell whose it is.
fn identity(config: &Config, standalone: Option<&Vmi>) -> Identity {
    match standalone {
        Some(vmi) if config.flags.name.is_empty() => {
            Identity::new(vmi.namespace(), vmi.name(), vmi.uid())
        }
        _ => Identity::new(
            &config.flags.namespace,
            &config.flags.name,
            &config.flags.uid,
        ),
    }
}

async fn collect(config: &Config, namespace: &str) -> anyhow::Result<Chain> {
    let collected = hook_host::collect(CollectConfig {
        hooks_dir: config.hooks_dir.clone(),
        expected: config.flags.hook_sidecars,
        deadline: config.flags.qemu_timeout,
        artifacts_dir: config.places.hook_artifacts(),
        baked_dirs: baked_dirs(
            config.flags.hook_artifacts.as_deref(),
            Path::new(BAKED_HOOKS),
        ),
        compiler: Compiler::Child {
            program: std::env::current_exe().context("finding this program")?,
        },
        limits: config.hook_limits.clone(),
        host_name: concat!("virt-launcher/", env!("CARGO_PKG_VERSION")).to_owned(),
        policy: config.hook_policy.clone(),
        namespace: namespace.to_owned(),
        record: config.flags.hook_record.clone().map(|dir| RecordConfig {
            dir,
            secrets: false,
        }),
        ..CollectConfig::default()
    });
    collected.await.context("collecting hooks")
}

/// Everything that runs.
struct Launcher {
    vm: Arc<Vm>,
    manager: Manager,
    server: Server,
    daemons: Option<Daemons>,
    state: watch::Receiver<VmState>,
    tasks: Vec<JoinHandle<()>>,
}

impl Launcher {
    /// In the contract's order; when it returns, the launcher is ready.
    async fn build(
        config: &Config,
        identity: Identity,
        hooks: Arc<dyn Hooks>,
    ) -> anyhow::Result<Launcher> {
        let places = &config.places;
        directories::initialize_disk_data(places)?;
        let daemons = start_daemons(config, &identity).await?;
        let uri = uri(config, daemons.as_ref());
        let connection = connect(&uri).await?;
        let notifier = Notifier::start(
            &places.notify_socket(),
            involved(&identity),
            Retry::default(),
        );
        let parts = Parts {
            identity: identity.clone(),
            connection: Arc::clone(&connection),
            notifier,
            hooks,
            preparation: preparation(config),
            qemu_log: places.qemu_log(&identity.domain),
        };
        let Spawned {
            manager,
            state,
            facts,
            observer,
            credentials,
        } = parts.spawn();
        let service = CommandService::new(manager.clone(), config.flags.vm_stats_collector);
        let mut server = Server::start(places, service)?;
        let pid_file = places.qemu_pid_file(&identity.domain);
        let watching = qemu_watch::watch(pid_file, state.clone(), facts.clone());
        let tasks = vec![observer, credentials, tokio::spawn(watching)];
        connection.monitor(facts).await?;
        server.mark_ready(places)?;
        tracing::info!(
            socket = %places.ready_socket().display(),
            millis = logging::since_start().as_millis() as u64,
            "marked as ready"
        );
        Ok(Launcher {
            vm: Arc::clone(manager.vm()),
            manager,
            server,
            daemons,
            state,
            tasks,
        })
    }

    /// Lives until there is nothing left to do.
    async fn live(
        &self,
        config: &Config,
        standalone: Option<Vmi>,
        signal: watch::Receiver<bool>,
    ) -> anyhow::Result<Ending> {
        let is_standalone = standalone.is_some();
        let alone = self.run_alone(standalone);
        let supervision = supervise::Supervision {
            vm: Arc::clone(&self.vm),
            manager: self.manager.clone(),
            state: self.state.clone(),
            signal,
            pid_file: config.places.qemu_pid_file(&self.vm.identity.domain),
        };
        let terms = supervise::terms(config, is_standalone);
        tokio::select! {
            ending = supervision.run(terms) => Ok(ending),
            failure = alone => failure,
        }
    }

    /// Syncs the standalone VMI, if there is one; returns only when that fails.
    async fn run_alone(&self, vmi: Option<Vmi>) -> anyhow::Result<Ending> {
        if let Some(vmi) = vmi {
            tracing::info!("standalone: running the VMI of STANDALONE_VMI");
            let request = SyncRequest {
                vmi,
                options: Default::default(),
                plugins: Default::default(),
                allow_emulation: true,
            };
            if let Err(error) = self.manager.sync(request).await
                // An end that was asked for is no failure of the VMI.
                && !error.is_refusal()
            {
                bail!("running the VMI of STANDALONE_VMI: {}", error.message());
            }
        }
        std::future::pending().await
    }

    /// No VM outlives its launcher, not even one that is just being started.
    async fn end_vm(&self) {
        let state = *self.state.borrow();
        if matches!(state, VmState::Defined | VmState::Active)
            && let Err(error) = self.manager.kill().await
        {
            tracing::warn!(reason = error.message(), "could not end the VM");
        }
        self.manager.close().await;
    }

    async fn drain(self, standalone: bool) {
        let patience = if standalone {
            LAST_WORD_ALONE
        } else {
            LAST_WORD
        };
        if !self.vm.notifier.flush(patience).await && !standalone {
            tracing::warn!("the last notifications did not reach virt-handler");
        }
        if tokio::time::timeout(CLOSE, self.end_vm()).await.is_err() {
            tracing::warn!("an operation was still under way when the launcher ended");
        }
        self.server.stop().await;
        // Before the daemon ends: nobody is to connect to it again.
        self.vm.connection.stop();
        for task in self.tasks {
            task.abort();
        }
        if let Some(daemons) = self.daemons {
            daemons.shutdown().await;
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
    let daemons = DaemonsConfig::new(&config.places, &identity.domain, filters, environment);
    Ok(Some(daemons::start(&daemons).await?))
}

fn uri(config: &Config, daemons: Option<&Daemons>) -> String {
    match (&config.libvirt_uri, daemons) {
        (Some(uri), _) => uri.clone(),
        (None, Some(daemons)) => daemons.uri().to_owned(),
        (None, None) => String::new(),
    }
}

async fn connect(uri: &str) -> anyhow::Result<Arc<Connection>> {
    let to = uri.to_owned();
    let connect: Connect = Arc::new(move || libvirt::connect(&to));
    Ok(Connection::open(uri, connect, CONNECT).await?)
}

fn involved(identity: &Identity) -> Involved {
    Involved {
        name: identity.name.clone(),
        namespace: identity.namespace.clone(),
        uid: identity.uid.clone(),
    }
}

fn preparation(config: &Config) -> Preparation {
    Preparation {
        facts: host::probe(config),
        tools: DiskTools::new(config.flags.disk_memory_limit),
        secrets: SecretDirectory(config.places.private.join("secret")),
        container_disks: config.places.container_disks.clone(),
        network: PodNetwork::kubevirt(&config.places.private),
        image_volumes: (config.flags.image_volume)
            .then(|| ImageVolumes::kubevirt(&config.places.container_disks)),
        known_disks: Default::default(),
        iommufd: IommuFd::served_at(config.places.iommufd_socket()),
        test_driver: config.is_test_driver(),
    }
}
