//! Builds a VM from its parts and starts its tasks.

use std::path::PathBuf;
use std::sync::Arc;

use hook_host::Reason;
use tokio::sync::{Mutex, Notify, mpsc, watch};

use super::kubevirt_metadata::Metadata;
use super::manager_handle::Manager;
use super::migration_arrival;
use super::report_panics_and_disk_errors::AlertReporter;
use super::start_acceptance::StartReport;
use super::vm_context::{Identity, VmContext};
use super::vm_observer::Observer;
use super::vm_state::Phase;
use crate::agent::credentials::CredentialSync;
use crate::agent::{AgentData, AgentLink, Freezer, GuestInfoCache, PollIntervals, Poller};
use crate::boot::boot_resources::BootResources;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::jobs::{JobContext, JobEvents, JobRecorder, Jobs, MigrationEnvironment, ProgressTimes};
use crate::libvirt_client::{Client, ConnectTarget, ConnectionEvent};
use crate::notify::Notifier;
use crate::tasks::Supervisor;
use crate::vm_events::VmEvent;

/// The parts of a VM.
pub struct VmParts {
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

impl VmParts {
    /// Starts its driver, and under supervision the observer and the tasks for access credentials and polling.
    pub fn spawn(self, supervisor: &mut Supervisor) -> VmHandles {
        let (events, received) = mpsc::unbounded_channel();
        let (state, phase) = watch::channel(Phase::Absent);
        let metadata = Arc::new(Metadata::new(events.clone()));
        let guest_info = Arc::new(GuestInfoCache::new(events.clone()));
        let (agent_link, link) = watch::channel(AgentLink::default());
        let defining = Arc::default();
        let job_events = Arc::new(JobEvents::default());
        let start_report = StartReport::default();
        let arrival = watch::Sender::default();
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
            arrival: arrival.clone(),
            job_events: Arc::clone(&job_events),
            state,
            events: Mutex::new(received),
            history: Mutex::default(),
        });
        supervisor.spawn("observer", move || {
            let observer = Arc::clone(&observer);
            async move { observer.run().await }
        });
        let poller = Poller {
            client: self.client.clone(),
            cache: Arc::clone(&guest_info),
            link,
            intervals: self.poll_intervals,
        };
        supervisor.spawn("guest agent", move || poller.clone().run());
        let freezer = Freezer::new(self.client.clone(), Arc::clone(&guest_info), self.tpm_state);
        let thawing = freezer.clone();
        supervisor.spawn("safety thaw", move || {
            let freezer = thawing.clone();
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
            arrival,
            last_edit: Arc::default(),
            target_cleanup: Notify::new(),
            pod_name: self.pod_name,
            last_request: Arc::clone(&last_request),
        };
        let vm = Arc::new(vm);
        let arriving = Arc::clone(&vm);
        supervisor.spawn("arrival", move || {
            migration_arrival::run(Arc::clone(&arriving))
        });
        let supervised = Arc::clone(&vm);
        supervisor.spawn("access credentials", move || {
            let credentials = credential_sync(&supervised).run();
            async move {
                credentials.await;
                // The guest never runs again: there is nothing left to keep, and nothing wrong.
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

/// What the task for access credentials works with.
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
    let known = state.wait_for(|state| matches!(state, Phase::Active | Phase::Gone));
    known.await.is_ok_and(|state| *state == Phase::Active)
}
