//! Builds a VM's context from its dependencies, and starts its tasks.

use std::path::PathBuf;
use std::sync::Arc;

use hook_host::Reason;
use tokio::sync::{Mutex, Notify, mpsc, watch};

use super::alert_reporter::AlertReporter;
use super::kubevirt_metadata::Metadata;
use super::manager_handle::Manager;
use super::record_incoming_end;
use super::start_notification::StartNotification;
use super::vm_context::VmContext;
use super::vm_identity::Identity;
use super::vm_observer::Observer;
use super::vm_state::Phase;
use crate::agent::credentials::CredentialSync;
use crate::agent::{AgentData, AgentLink, Freezer, GuestInfoCache, PollIntervals, Poller};
use crate::boot::boot_resources::BootResources;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::jobs::{
    JobContext, JobRecorder, Jobs, MigrationEnvironment, ProgressTimes, VmEventsForJob,
};
use crate::libvirt_client::{Client, ConnectTarget, ConnectionEvent};
use crate::notify::Notifier;
use crate::tasks::Supervisor;
use crate::vm_events::VmEvent;

/// What a VM's tasks depend on.
pub struct VmDependencies {
    /// The VM's names.
    pub identity: Identity,
    /// The pod's name.
    pub pod_name: String,
    /// libvirt.
    pub client: Client,
    /// Opens connections to the daemon of a migration's target.
    pub connect_target: ConnectTarget,
    /// virt-handler.
    pub notifier: Notifier,
    /// The hooks.
    pub hooks: Arc<dyn Hooks>,
    /// The node and the pod's disks.
    pub boot_resources: BootResources,
    /// Where QEMU's output is written.
    pub qemu_log: PathBuf,
    /// Where swtpm keeps the state of the TPM.
    pub tpm_state: PathBuf,
    /// Where QEMU serves a backup in pull mode.
    pub backup_socket: PathBuf,
    /// How often the guest agent is asked.
    pub poll_intervals: PollIntervals,
    /// What migrations from this launcher find in the pod.
    pub migration: MigrationEnvironment,
}

/// The handles of a running VM.
pub struct VmHandles {
    /// For commands.
    pub manager: Manager,
    /// The phase, as it changes.
    pub state: watch::Receiver<Phase>,
    /// For events, libvirt's included.
    pub events: mpsc::UnboundedSender<VmEvent>,
}

impl VmDependencies {
    /// Starts the driver, and under supervision the observer, the guest agent's poller, the safety thaw, and the tasks for an
    /// incoming migration and for access credentials.
    pub fn spawn(self, supervisor: &mut Supervisor) -> VmHandles {
        let (events, event_receiver) = mpsc::unbounded_channel();
        let (state, phase) = watch::channel(Phase::Absent);
        let metadata = Arc::new(Metadata::new(events.clone()));
        let guest_info = Arc::new(GuestInfoCache::new(events.clone()));
        let (agent_link, agent_link_receiver) = watch::channel(AgentLink::default());
        let defining = Arc::default();
        let job_events = Arc::new(VmEventsForJob::default());
        let start_report = StartNotification::default();
        let incoming_migration = watch::Sender::default();
        let last_request = Arc::default();
        let observer = Arc::new(Observer {
            defining: Arc::clone(&defining),
            start_report: start_report.clone(),
            last_request: Arc::clone(&last_request),
            client: self.client.clone(),
            identity: self.identity.clone(),
            metadata: Arc::clone(&metadata),
            notifier: self.notifier.clone(),
            alert_reporter: AlertReporter::new(self.qemu_log),
            guest_info: Arc::clone(&guest_info),
            agent_link,
            incoming_migration: incoming_migration.clone(),
            job_events: Arc::clone(&job_events),
            state,
            events: Mutex::new(event_receiver),
            history: Mutex::default(),
        });
        supervisor.spawn("observer", move || {
            let observer = Arc::clone(&observer);
            async move { observer.run().await }
        });
        let poller = Poller {
            client: self.client.clone(),
            cache: Arc::clone(&guest_info),
            link: agent_link_receiver,
            intervals: self.poll_intervals,
        };
        supervisor.spawn("guest agent", move || poller.clone().run());
        let freezer = Freezer::new(self.client.clone(), Arc::clone(&guest_info), self.tpm_state);
        let freezer_for_thaw = freezer.clone();
        supervisor.spawn("safety thaw", move || {
            let freezer = freezer_for_thaw.clone();
            async move { freezer.run_safety_thaw().await }
        });
        let hook_failures = HookFailureEvents::new(self.notifier.clone());
        let jobs = Jobs::new(JobContext {
            domain: self.identity.domain.clone(),
            connect: self.client.connect(),
            connect_target: self.connect_target,
            recorder: Arc::clone(&metadata) as Arc<dyn JobRecorder>,
            progress: ProgressTimes::default(),
            migration: self.migration,
            client: self.client.clone(),
            freezer: freezer.clone(),
            backup_socket: self.backup_socket,
            hooks: Arc::clone(&self.hooks),
            hook_failures: hook_failures.clone(),
            invocation: self.identity.invocation(Reason::MigrationSource),
            events: events.clone(),
            job_events,
        });
        let vm = VmContext {
            agent_data: AgentData::new(self.client.clone()),
            jobs,
            identity: self.identity,
            client: self.client,
            metadata,
            notifier: self.notifier,
            hooks: self.hooks,
            hook_failures,
            boot_resources: self.boot_resources,
            events: events.clone(),
            state: phase.clone(),
            start_report,
            guest_info,
            freezer,
            credentials: watch::Sender::default(),
            guest_asked: Notify::new(),
            defining,
            migration_sockets: Default::default(),
            driver_state: Default::default(),
            incoming_migration,
            last_edit: Arc::default(),
            target_cleanup: Notify::new(),
            pod_name: self.pod_name,
            last_request: Arc::clone(&last_request),
        };
        let vm = Arc::new(vm);
        let vm_for_arrival = Arc::clone(&vm);
        supervisor.spawn("incoming migration", move || {
            record_incoming_end::run(Arc::clone(&vm_for_arrival))
        });
        let vm_for_credentials = Arc::clone(&vm);
        supervisor.spawn("access credentials", move || {
            let credentials = credential_sync(&vm_for_credentials).run();
            async move {
                credentials.await;
                // The guest never runs again. A task that returns would be restarted.
                std::future::pending().await
            }
        });
        VmHandles {
            manager: Manager::start(vm),
            state: phase,
            events,
        }
    }
}

/// Hands the connection's events to the observer.
pub fn event_handler(
    events: mpsc::UnboundedSender<VmEvent>,
) -> impl Fn(ConnectionEvent) + Send + Sync + 'static {
    move |event| {
        // Fails only when the observer is gone.
        let _ = events.send(match event {
            ConnectionEvent::Libvirt(event) => VmEvent::Libvirt(event),
            ConnectionEvent::Reconnected => VmEvent::Republish,
        });
    }
}

/// The dependencies of the task for access credentials.
fn credential_sync(vm: &Arc<VmContext>) -> CredentialSync {
    let (state, metadata) = (vm.state.clone(), Arc::clone(&vm.metadata));
    CredentialSync {
        client: vm.client.clone(),
        secrets: vm.boot_resources.secrets.clone(),
        notifier: vm.notifier.clone(),
        credentials: vm.credentials.subscribe(),
        guest_runs: Box::new(move || Box::pin(guest_runs(state.clone()))),
        report: Box::new(move |succeeded, message| {
            metadata.set_access_credential(succeeded, message)
        }),
    }
}

/// Waits until the guest runs; false when it never will again.
async fn guest_runs(mut state: watch::Receiver<Phase>) -> bool {
    let reached = state.wait_for(|state| matches!(state, Phase::Active | Phase::Gone));
    reached.await.is_ok_and(|state| *state == Phase::Active)
}
