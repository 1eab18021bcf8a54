//! Builds a VM's context from its dependencies, and starts its tasks.

use std::path::PathBuf;
use std::sync::Arc;

use domain::kubevirt_version::Behaviour;
use hook_host::Reason;
use tokio::sync::{Mutex, Notify, watch};

use super::alert_reporter::AlertReporter;
use super::kubevirt_metadata::MetadataStore;
use super::start_notification_acceptance::StartNotification;
use super::vm_context::VmContext;
use super::vm_observer::Observer;
use super::vm_phase::Phase;
use super::{Identity, Manager, incoming_migration_end_task};
use crate::guest_agent::access_credentials::CredentialSync;
use crate::guest_agent::{
    AgentLink, Freezer, GuestInfoCache, PollIntervals, Poller, VmStatsAnswerCache,
};
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::jobs::{
    JobContext, JobRecorder, Jobs, MigrationEnvironment, ProgressTimes, VmEventsForJob,
};
use crate::libvirt_client::{Client, ConnectTarget, ConnectionEvent};
use crate::notify::Notifier;
use crate::supervised_tasks::Supervisor;
use crate::vm_boot::boot_resources::BootResources;
use crate::vm_events::{VmEvent, VmEventSender, vm_event_queue};

/// What a VM's tasks depend on.
pub struct VmDependencies {
    /// The VM's names.
    pub identity: Identity,
    /// The pod's name.
    pub pod_name: String,
    /// The client of libvirt.
    pub client: Client,
    /// Opens connections to the libvirt daemon of a migration's target.
    pub connect_target: ConnectTarget,
    /// Sends notifications to virt-handler.
    pub notifier: Notifier,
    /// The hooks.
    pub hooks: Arc<dyn Hooks>,
    /// The resources that a boot prepares.
    pub boot_resources: BootResources,
    /// The file to which QEMU's output is written.
    pub qemu_log: PathBuf,
    /// The directory of swtpm's state of the TPM.
    pub tpm_state: PathBuf,
    /// The socket on which QEMU serves a backup in pull mode.
    pub backup_socket: PathBuf,
    /// How often the guest agent is polled.
    pub poll_intervals: PollIntervals,
    /// The parts of the pod that migrations from this launcher use.
    pub migration: MigrationEnvironment,
}

/// The handles of a running VM.
pub struct VmHandles {
    /// Runs commands.
    pub manager: Manager,
    /// The VM's current phase.
    pub phase: watch::Receiver<Phase>,
    /// Sends events to the observer, including libvirt's.
    pub events: VmEventSender,
}

impl VmDependencies {
    /// Starts the driver, and under supervision the observer, the guest agent's poller, the safety thaw, and the tasks
    /// for an incoming migration and for access credentials.
    pub fn spawn(self, supervisor: &mut Supervisor) -> VmHandles {
        let (events, event_receiver) = vm_event_queue();
        let (phase, phase_receiver) = watch::channel(Phase::Absent);
        let metadata = Arc::new(MetadataStore::new(events.clone()));
        let guest_info = Arc::new(GuestInfoCache::new(events.clone()));
        let (agent_link, agent_link_receiver) = watch::channel(AgentLink::default());
        let defining = Arc::default();
        let job_events = Arc::new(VmEventsForJob::default());
        let start_notification = StartNotification::default();
        let incoming_migration = watch::Sender::default();
        let last_request = Arc::default();
        let kubevirt = self.boot_resources.facts.kubevirt_version;
        let observer = Arc::new(Observer {
            deletes_domain_by_event: Behaviour::of(kubevirt).deletes_domain_by_event,
            defining: Arc::clone(&defining),
            start_notification: start_notification.clone(),
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
            phase,
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
            link: agent_link_receiver.clone(),
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
            vm_stats_answers: VmStatsAnswerCache::new(self.client.clone()),
            jobs,
            identity: self.identity,
            client: self.client,
            metadata,
            notifier: self.notifier,
            hooks: self.hooks,
            hook_failures,
            boot_resources: self.boot_resources,
            events: events.clone(),
            phase: phase_receiver.clone(),
            start_notification,
            guest_info,
            freezer,
            credentials: watch::Sender::default(),
            power_off_requested: Notify::new(),
            deleted_before_definition: Notify::new(),
            defining,
            migration_sockets: Default::default(),
            driver_state: Default::default(),
            incoming_migration,
            last_incoming_edit: Arc::default(),
            target_cleanup: Notify::new(),
            pod_name: self.pod_name,
            last_request: Arc::clone(&last_request),
        };
        let vm = Arc::new(vm);
        let vm_for_arrival = Arc::clone(&vm);
        supervisor.spawn("incoming migration", move || {
            incoming_migration_end_task::run(Arc::clone(&vm_for_arrival))
        });
        let vm_for_credentials = Arc::clone(&vm);
        supervisor.spawn("access credentials", move || {
            let link = agent_link_receiver.clone();
            let credentials = credential_sync(&vm_for_credentials, link).run();
            async move {
                credentials.await;
                // The guest never runs again. The supervisor would restart a task that returns.
                std::future::pending().await
            }
        });
        VmHandles {
            manager: Manager::start(vm, supervisor),
            phase: phase_receiver,
            events,
        }
    }
}

/// A handler that forwards the connection's events to the observer.
pub fn event_handler(events: VmEventSender) -> impl Fn(ConnectionEvent) + Send + Sync + 'static {
    move |event| {
        // Fails only when the observer is gone.
        let _ = events.send(match event {
            ConnectionEvent::Libvirt(event) => VmEvent::Libvirt(event),
            ConnectionEvent::Reconnected => VmEvent::Republish,
        });
    }
}

/// The dependencies of the task for access credentials.
fn credential_sync(vm: &Arc<VmContext>, agent_link: watch::Receiver<AgentLink>) -> CredentialSync {
    let (phase, metadata) = (vm.phase.clone(), Arc::clone(&vm.metadata));
    CredentialSync {
        client: vm.client.clone(),
        secrets: vm.boot_resources.secrets.clone(),
        notifier: vm.notifier.clone(),
        credentials: vm.credentials.subscribe(),
        agent_link,
        guest_runs: Box::new(move || Box::pin(guest_runs(phase.clone()))),
        report: Box::new(move |succeeded, message| {
            metadata.set_access_credential(succeeded, message)
        }),
    }
}

/// Waits until the guest runs. Returns false if it will never run again.
async fn guest_runs(mut phase: watch::Receiver<Phase>) -> bool {
    let reached = phase.wait_for(|phase| matches!(phase, Phase::Active | Phase::Gone));
    reached.await.is_ok_and(|phase| *phase == Phase::Active)
}
