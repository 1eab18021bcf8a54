//! What operations work with: clients, state and what one operation leaves for the next.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::access_credentials::Credential;
use domain::reconcile::RunningSettings;
use hook_host::{Invocation, Reason};
use kubevirt_api::vmi::Vmi;
use tokio::sync::{Notify, mpsc, watch};

use super::applied_hooks::AppliedHook;
use super::command_id::CommandId;
use super::detaching_devices::Detaching;
use super::disk_capacities::DiskCapacities;
use super::failed_attaches::FailedAttaches;
use super::incoming_domain::LastEdit;
use super::incoming_stage::IncomingStage;
use super::kubevirt_metadata::Metadata;
use super::refused_devices::RefusedDevices;
use super::start_acceptance::StartReport;
use super::vm_state::{Phase, Role};
use crate::agent::guest_time::GuestTimeSync;
use crate::agent::{AgentData, Freezer, GuestInfoCache};
use crate::boot::boot_resources::{BootResources, CloudInitImage};
use crate::boot::migration_sockets::MigrationSockets;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::jobs::Jobs;
use crate::libvirt_client::Client;
use crate::libvirt_migration_hook::HookServer;
use crate::notify::Notifier;
use crate::vm_events::VmEvent;

/// Which VM this launcher runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Namespace of the VMI.
    pub namespace: String,
    /// Name of the VMI.
    pub name: String,
    /// UID of the VMI.
    pub uid: String,
    /// libvirt's name of the domain.
    pub domain: String,
}

impl Identity {
    /// The identity of a VMI.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Identity {
        Identity {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            domain: format!("{namespace}_{name}"),
        }
    }

    /// The invocation that hooks see.
    pub fn invocation(&self, reason: Reason) -> Invocation {
        Invocation {
            reason,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            domain: self.domain.clone(),
        }
    }
}

/// The virtual machine's identity, its clients and its state.
pub struct VmContext {
    /// The VM's names.
    pub identity: Identity,
    /// libvirt.
    pub client: Client,
    /// KubeVirt's metadata.
    pub metadata: Arc<Metadata>,
    /// virt-handler.
    pub notifier: Notifier,
    /// The hooks.
    pub hooks: Arc<dyn Hooks>,
    /// Kubernetes events about hooks that failed.
    pub hook_failures: HookFailureEvents,
    /// The node, and what a boot prepares on it.
    pub boot_resources: BootResources,
    /// Events for the observer.
    pub events: mpsc::UnboundedSender<VmEvent>,
    /// The phase, as the observer last published it.
    pub state: watch::Receiver<Phase>,
    /// Whether virt-handler knows of the start.
    pub start_report: StartReport,
    /// Work on the domain that outlasts its command.
    pub jobs: Jobs,
    /// What the guest agent reported.
    pub guest_info: Arc<GuestInfoCache>,
    /// The agent's own answers, for statistics.
    pub agent_data: AgentData,
    /// Freezes and thaws the guest.
    pub freezer: Freezer,
    /// The credentials to set through the guest agent; sent by each start.
    pub credentials: watch::Sender<Vec<Credential>>,
    /// Notified whenever the guest is asked to power off.
    pub guest_asked: Notify,
    /// Held while the domain is being defined, in all its steps.
    pub defining: Arc<tokio::sync::Mutex<()>>,
    /// What a migration to this pod arrives through.
    pub(crate) migration_sockets: tokio::sync::Mutex<MigrationSockets>,
    /// What one operation leaves for the next.
    pub driver_state: Mutex<DriverState>,
    /// How far a migration to this pod is.
    pub incoming_migration: watch::Sender<IncomingStage>,
    /// What was made of the domain that arrives by a migration.
    pub last_edit: Arc<LastEdit>,
    /// Notified when a migration's target is not needed any more.
    pub target_cleanup: Notify,
    /// The pod's name (`POD_NAME`).
    pub pod_name: String,
    /// The number of the request that began last, for log lines; 0 before the first.
    pub last_request: Arc<AtomicU64>,
}

/// What one operation leaves for the next.
#[derive(Default)]
pub struct DriverState {
    /// Which side of a migration the VM is on.
    pub role: Role,
    /// Serves libvirt's hook until the VM has arrived.
    pub(crate) hook_server: Option<HookServer>,
    /// A user has paused the VM: a sync must not resume it.
    pub paused_by_user: bool,
    /// A user had paused the VM on the source when this pod was prepared for its migration.
    pub paused_on_source: bool,
    /// This launcher has defined the domain and prepared its resources.
    pub defined: bool,
    /// The cloud-init image of this boot; it is written when the domain starts.
    pub cloud_init: Option<CloudInitImage>,
    /// virt-handler has had the domain deleted.
    pub deleted: bool,
    /// virt-handler has given up the migration to this pod, and forgets the domain.
    pub given_up: bool,
    /// The VMI asks to pause guest agent probes.
    pub agent_probe_paused: bool,
    /// The guest's clock is being set.
    pub(super) guest_time: Option<GuestTimeSync>,
    /// Devices that the guest was asked to release, and has not released yet.
    pub(super) detaching: Detaching,
    /// Devices whose attach failed, parts of which QEMU may have.
    pub(super) failed_attaches: FailedAttaches,
    /// How large the guest sees its disks.
    pub(super) disk_capacities: DiskCapacities,
    /// The settings of the running VM, from the VMI of its first sync.
    pub settings: Option<RunningSettings>,
    /// Settings in later VMIs that were reported because the running VM keeps its own.
    pub reported_settings: HashSet<String>,
    /// Interfaces whose links a finalized migration has taken down and not up again.
    pub(super) links_taken_down: HashSet<String>,
    /// Devices that hooks refused.
    pub(super) refused_devices: RefusedDevices,
    /// The hooks of this boot, until the domain is started and events tell of them.
    pub(super) applied_hooks: Vec<AppliedHook>,
}

impl VmContext {
    /// Closes and removes what a migration to this pod arrives through.
    pub(crate) async fn close_target_sockets(&self) {
        // A preparation that holds the lock may still be making both.
        let mut sockets = self.migration_sockets.lock().await;
        let server = self.driver_state().hook_server.take();
        // It removes its socket.
        drop(server);
        *sockets = MigrationSockets::default();
    }

    /// Records the number of the request that begins, for log lines.
    pub(super) fn publish_request(&self, id: CommandId) {
        self.last_request.store(id.0, Ordering::Relaxed);
    }

    /// Which side of a migration the VM is on.
    pub fn role(&self) -> Role {
        match self.jobs.migrates_away() {
            true => Role::Source,
            false => self.driver_state().role,
        }
    }

    /// Ends the launcher if this pod is the migration's target: its migration has failed. A VM that has arrived is not
    /// ended.
    pub fn clean_up_target(&self, vmi: &Vmi) {
        let state = vmi.status.migration_state.as_ref();
        let target = state.map_or("", |state| &state.target_pod);
        if target.is_empty() || target != self.pod_name {
            tracing::debug!(target, pod = self.pod_name, "clean-up of another pod");
            return;
        }
        {
            let mut state = self.driver_state();
            state.given_up |= state.role == Role::Target;
        }
        self.target_cleanup.notify_one();
    }

    /// Locks the state that one operation leaves for the next.
    pub fn driver_state(&self) -> MutexGuard<'_, DriverState> {
        self.driver_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
