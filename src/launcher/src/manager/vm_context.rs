//! What operations work with: clients and state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::access_credentials::Credential;
use kubevirt_api::vmi::Vmi;
use tokio::sync::{Notify, mpsc, watch};

use super::command_id::CommandId;
use super::driver_state::DriverState;
use super::edit_incoming_domain::LastEdit;
use super::incoming_stage::IncomingStage;
use super::kubevirt_metadata::Metadata;
use super::start_notification::StartNotification;
use super::vm_identity::Identity;
use super::vm_state::{Phase, Role};
use crate::agent::{AgentData, Freezer, GuestInfoCache};
use crate::boot::boot_resources::BootResources;
use crate::boot::migration_sockets::MigrationSockets;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::jobs::Jobs;
use crate::libvirt_client::Client;
use crate::notify::Notifier;
use crate::vm_events::VmEvent;

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
    pub start_report: StartNotification,
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
