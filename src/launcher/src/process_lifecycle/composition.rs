//! Composes a launcher from its dependencies, after the daemons were started. Tests compose it on a fake libvirt.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::command_server::{CommandServer, CommandService};
use crate::guest_agent::PollIntervals;
use crate::hooks_trait::Hooks;
use crate::jobs::MigrationEnvironment;
use crate::libvirt_client::{Client, Connect, ConnectTarget, Connection};
use crate::manager::{Identity, Manager, Phase, VmDependencies, VmHandles, event_handler};
use crate::migration_error_log::MigrationErrorLog;
use crate::notify::{InvolvedObject, Notifier, RetryTimes, Warning};
use crate::paths::Paths;
use crate::supervised_tasks::Supervisor;
use crate::vm_boot::boot_resources::BootResources;
use crate::{logging, qemu_watch};

/// Timeout of the first connection to libvirt. The daemon is listening already, but may be slow to answer first.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The dependencies of a launcher.
pub struct Composition {
    /// The directories and sockets.
    pub paths: Paths,
    /// The VM's names.
    pub identity: Identity,
    /// The pod's name.
    pub pod_name: String,
    /// libvirt's URI, for messages.
    pub libvirt_uri: String,
    /// Opens connections to libvirt.
    pub connect: Connect,
    /// Opens connections to the libvirt daemon of a migration's target.
    pub connect_target: ConnectTarget,
    /// The hooks.
    pub hooks: Arc<dyn Hooks>,
    /// The resources that a boot prepares.
    pub boot_resources: BootResources,
    /// How often the guest agent is polled.
    pub poll_intervals: PollIntervals,
    /// Whether the command server provides statistics to virt-handler's collector (`--vm-stats-collector`).
    pub vm_stats_collector: bool,
    /// Whether a migration's target sets its file names and host CPUs itself (`--libvirt-hook-server-and-client`).
    pub migration_hooks: bool,
    /// Receives messages about parts of QEMU's logs that were lost because virtlogd died.
    pub lost_logs: Option<watch::Receiver<Option<String>>>,
    /// The errors that libvirt's daemon logs about the migration from this pod.
    pub migration_log: MigrationErrorLog,
}

/// A started launcher.
pub struct RunningLauncher {
    /// Runs commands.
    pub manager: Manager,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) server: CommandServer,
    pub(super) tasks: Supervisor,
}

impl Composition {
    /// Connects to libvirt, starts all tasks and serves commands. When it returns, the launcher is ready.
    pub async fn start(self) -> anyhow::Result<RunningLauncher> {
        let Composition {
            paths,
            identity,
            pod_name,
            libvirt_uri,
            connect,
            connect_target,
            hooks,
            boot_resources,
            poll_intervals,
            vm_stats_collector,
            migration_hooks,
            lost_logs,
            migration_log,
        } = self;
        let pid_file = paths.qemu_pid_file(&identity.domain);
        let connection = Connection::open(&libvirt_uri, connect, CONNECT_TIMEOUT).await?;
        let client = Client::new(connection, &identity.domain, pid_file.clone());
        let mut tasks = Supervisor::default();
        let notifier = start_notifier(&paths, &identity, &mut tasks);
        if let Some(lost) = lost_logs {
            let notifier = notifier.clone();
            tasks.spawn("lost logs", move || {
                warn_of_lost_logs(lost.clone(), notifier.clone())
            });
        }
        let facts = boot_resources.facts.clone();
        let dependencies = VmDependencies {
            client: client.clone(),
            connect_target,
            notifier,
            hooks,
            boot_resources,
            qemu_log: paths.qemu_log(&identity.domain),
            tpm_state: paths.tpm_state(),
            migration: MigrationEnvironment {
                share: paths.share.clone(),
                ephemeral_disks: paths.ephemeral_disks.clone(),
                facts,
                sets_target_names_and_cpus: !migration_hooks,
                log: migration_log,
                migrated_marker: paths.migrated_marker(),
            },
            backup_socket: paths.backup_socket(),
            poll_intervals,
            identity,
            pod_name,
        };
        let VmHandles {
            manager,
            phase,
            events,
        } = dependencies.spawn(&mut tasks);
        let service = CommandService::new(manager.clone(), vm_stats_collector);
        let mut server = CommandServer::start(&paths, service)?;
        let qemu_watch_channels = (phase.clone(), events.clone());
        tasks.spawn("QEMU watch", move || {
            let (phase, events) = qemu_watch_channels.clone();
            qemu_watch::watch(pid_file.clone(), phase, events)
        });
        client.monitor(event_handler(events)).await?;
        server.mark_ready(&paths)?;
        tracing::info!(
            socket = %paths.ready_socket().display(),
            millis = logging::since_start().as_millis() as u64,
            "marked as ready"
        );
        Ok(RunningLauncher {
            manager,
            phase,
            server,
            tasks,
        })
    }
}

fn start_notifier(paths: &Paths, identity: &Identity, tasks: &mut Supervisor) -> Notifier {
    let (notifier, send_task) = Notifier::new(
        &paths.notify_socket(),
        involved_object(identity),
        RetryTimes::default(),
    );
    tasks.spawn("notifier", move || {
        let task = send_task.clone();
        async move { task.run().await }
    });
    notifier
}

/// Sends a Kubernetes event about a lost log, since the VM's owner cannot see the launcher's log.
async fn warn_of_lost_logs(mut lost: watch::Receiver<Option<String>>, notifier: Notifier) {
    while lost.changed().await.is_ok() {
        let message = lost.borrow_and_update().clone();
        if let Some(message) = message {
            notifier.warning(&Warning {
                reason: "SerialLogLost",
                message,
            });
        }
    }
}

/// The VMI of Kubernetes events.
pub(super) fn involved_object(identity: &Identity) -> InvolvedObject {
    InvolvedObject {
        name: identity.name.clone(),
        namespace: identity.namespace.clone(),
        uid: identity.uid.clone(),
    }
}
