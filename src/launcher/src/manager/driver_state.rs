//! What one operation leaves for the next.

use std::collections::HashSet;

use domain::reconcile::RunningSettings;

use super::applied_hooks::AppliedHook;
use super::detaching_devices::Detaching;
use super::devices_refused_by_hooks::DevicesRefusedByHooks;
use super::disk_capacities::DiskCapacities;
use super::failed_attaches::FailedAttaches;
use super::vm_state::Role;
use crate::agent::guest_time::GuestTimeSync;
use crate::boot::boot_resources::CloudInitImage;
use crate::libvirt_migration_hook::HookServer;

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
    pub(super) refused_devices: DevicesRefusedByHooks,
    /// The hooks of this boot, until the domain is started and events tell of them.
    pub(super) applied_hooks: Vec<AppliedHook>,
}
