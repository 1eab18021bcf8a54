//! The VM's clients and state, which all operations use.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use domain::guest_agent_access_credentials::Credential;
use domain::reconcile::RunningSettings;
use kubevirt_api::vmi::Vmi;
use tokio::sync::{Notify, watch};

use super::Identity;
use super::alert_reporter::ReportedConditions;
use super::command_id::CommandId;
use super::hook_applied_event_messages::AppliedHook;
use super::incoming_migration::{IncomingMigrationStage, LastIncomingEdit};
use super::kubevirt_metadata::MetadataStore;
use super::start_notification_acceptance::StartNotification;
use super::tracked_devices::{
    DetachingDevices, DevicesRefusedByHooks, DiskCapacities, FailedAttaches,
};
use super::vm_phase::{Phase, Role};
use crate::guest_agent::guest_clock_sync::GuestClockSync;
use crate::guest_agent::{Freezer, GuestInfoCache, VmStatsAnswerCache};
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::jobs::Jobs;
use crate::libvirt_client::Client;
use crate::libvirt_migration_hook_server::HookServer;
use crate::notify::Notifier;
use crate::vm_boot::boot_resources::{BootResources, CloudInitImage};
use crate::vm_boot::migration_target_sockets::MigrationTargetSockets;
use crate::vm_events::VmEventSender;

/// The virtual machine's identity, its clients and its state.
pub struct VmContext {
    /// The VM's names.
    pub identity: Identity,
    /// The client of libvirt.
    pub client: Client,
    /// KubeVirt's metadata.
    pub metadata: Arc<MetadataStore>,
    /// Sends notifications to virt-handler.
    pub notifier: Notifier,
    /// The hooks.
    pub hooks: Arc<dyn Hooks>,
    /// Sends Kubernetes events about hooks that failed.
    pub hook_failures: HookFailureEvents,
    /// The resources that a boot prepares.
    pub boot_resources: BootResources,
    /// Sends events to the observer.
    pub events: VmEventSender,
    /// The VM's phase, as the observer last updated it.
    pub phase: watch::Receiver<Phase>,
    /// Whether virt-handler has accepted the notification of the start.
    pub start_notification: StartNotification,
    /// Starts and aborts jobs.
    pub jobs: Jobs,
    /// What the guest agent reported.
    pub guest_info: Arc<GuestInfoCache>,
    /// Answers of the guest agent for statistics.
    pub vm_stats_answers: VmStatsAnswerCache,
    /// Freezes and thaws the guest.
    pub freezer: Freezer,
    /// The access credentials that the guest agent is to set; each start sends them.
    pub credentials: watch::Sender<Vec<Credential>>,
    /// Notified whenever the guest is asked to power off.
    pub power_off_requested: Notify,
    /// Notified when virt-handler deletes a VM of which a start has failed before libvirt knew its domain.
    pub(crate) deleted_before_definition: Notify,
    /// Held during all steps of defining the domain.
    pub defining: Arc<tokio::sync::Mutex<()>>,
    /// The sockets through which a migration to this pod arrives.
    pub(crate) migration_sockets: tokio::sync::Mutex<MigrationTargetSockets>,
    /// The state that commands share.
    pub driver_state: Mutex<DriverState>,
    /// The stage of a migration to this pod.
    pub incoming_migration: watch::Sender<IncomingMigrationStage>,
    /// The edits of the domain that arrives by a migration.
    pub last_incoming_edit: Arc<LastIncomingEdit>,
    /// Notified when virt-handler no longer needs this pod as a migration's target.
    pub target_cleanup: Notify,
    /// The pod's name (`POD_NAME`).
    pub pod_name: String,
    /// The ID of the command that was started last, for log lines; 0 before the first.
    pub last_request: Arc<AtomicU64>,
}

impl VmContext {
    /// Closes the sockets of a migration to this pod and of libvirt's migration hook, and removes their files.
    pub(crate) async fn close_target_sockets(&self) {
        // Locked first: a preparation that holds the lock may still be creating the sockets.
        let mut sockets = self.migration_sockets.lock().await;
        let server = self.driver_state().hook_server.take();
        // Dropping the server removes its socket.
        drop(server);
        *sockets = MigrationTargetSockets::default();
    }

    /// Records the ID of the command that starts, for log lines.
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

    /// Ends the launcher after a failed migration, if this pod was its target. A VM that has arrived is not ended.
    pub fn clean_up_target(&self, vmi: &Vmi) {
        let state = vmi.status.migration_state.as_ref();
        let target = state.map_or("", |state| &state.target_pod);
        if target.is_empty() || target != self.pod_name {
            tracing::debug!(target, pod = self.pod_name, "clean-up of another pod");
            return;
        }
        {
            let mut state = self.driver_state();
            state.migration_given_up |= state.role == Role::Target;
        }
        self.target_cleanup.notify_one();
    }

    /// Locks the state that commands share.
    pub fn driver_state(&self) -> MutexGuard<'_, DriverState> {
        self.driver_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state that commands leave for later commands.
#[derive(Default)]
pub struct DriverState {
    /// Which side of a migration the VM is on.
    pub role: Role,
    /// The server of libvirt's migration hook, until the VM has arrived.
    pub(crate) hook_server: Option<HookServer>,
    /// Whether a user has paused the VM, so that a sync must not resume it.
    pub paused_by_user: bool,
    /// Whether a user had paused the VM on the source when this pod was prepared for its migration.
    pub paused_on_source: bool,
    /// Whether this launcher has defined the domain and prepared its resources.
    pub defined: bool,
    /// The cloud-init image of this boot; it is written when the domain starts.
    pub cloud_init: Option<CloudInitImage>,
    /// Whether a sync has tried to start the VM.
    pub(super) start_was_tried: bool,
    /// Alive while a call to libvirt runs that starts the domain, also when its result is no longer waited for.
    pub(super) create_call: Weak<()>,
    /// Whether virt-handler has deleted the domain.
    pub deleted: bool,
    /// Whether virt-handler has given up the migration to this pod, and expects no more notifications of the domain.
    pub migration_given_up: bool,
    /// Whether the VMI asks to pause guest agent probes.
    pub agent_probe_paused: bool,
    /// The task that sets the guest's clock; it ends when it is dropped.
    pub(super) guest_clock: Option<GuestClockSync>,
    /// Devices that the guest was asked to release, and has not released yet.
    pub(super) detaching: DetachingDevices,
    /// Devices whose attach failed, and of which QEMU may still have parts.
    pub(super) failed_attaches: FailedAttaches,
    /// The sizes of the disks, as the guest sees them.
    pub(super) disk_capacities: DiskCapacities,
    /// The settings that the running VM has, from the VMI of its first sync.
    pub settings: Option<RunningSettings>,
    /// Conditions of the running VM that were reported.
    pub(super) reported_conditions: ReportedConditions,
    /// Interfaces whose links were taken down after a migration and could not be taken up again.
    pub(super) links_taken_down: HashSet<String>,
    /// Devices that hooks refused.
    pub(super) refused_devices: DevicesRefusedByHooks,
    /// The hooks of this boot, until the domain has started and their Kubernetes events are sent.
    pub(super) applied_hooks: Vec<AppliedHook>,
}
