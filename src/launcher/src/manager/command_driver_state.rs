//! The state that commands share.

use std::collections::HashSet;
use std::sync::Weak;

use domain::reconcile::RunningSettings;

use super::detaching_devices::DetachingDevices;
use super::devices_refused_by_hooks::DevicesRefusedByHooks;
use super::disk_capacities::DiskCapacities;
use super::failed_device_attaches::FailedAttaches;
use super::hook_applied_event_messages::AppliedHook;
use super::reported_conditions::ReportedConditions;
use super::vm_phase_and_migration_role::Role;
use crate::guest_agent::guest_clock_sync::GuestClockSync;
use crate::libvirt_migration_hook_server::HookServer;
use crate::vm_boot::boot_resources::CloudInitImage;

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
