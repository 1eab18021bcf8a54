//! Changes the running domain to match its VMI: [`domain::reconcile`] plans the changes, this module applies them one
//! after the other. The first error ends the sync; the changes made before it stay, and the next sync continues. A
//! device that a hook refuses is left out. Devices that the guest has not released before come last, because libvirt
//! waits for each.
//!
//! ```text
//! live XML ─ plan ─▶ detach disks, attach disks, change media ─ expand disks ─ interfaces ─ kept devices
//! ```

mod attach_disk;
mod change_cdrom_media;
mod changes_deadline;
mod detach_device;
mod hotplugged_image_check;
mod interface_changes;
mod ordered_changes;

use std::sync::{Arc, OnceLock};

use changes_deadline::ChangesDeadline;
use domain::libvirt_spec::DomainSpec;
use domain::reconcile::{DeviceChange, plan};
use hook_host::AttachTime;
use libvirt::{Affect, Domain};
use tokio_util::sync::CancellationToken;

use super::{safe_point, unapplied_changes};
use crate::libvirt_client::COMMAND;
use crate::manager::command_error::CommandError;
use crate::manager::devices_refused_by_hooks::DeviceKind;
use crate::manager::ops::attach_device::{AttachResult, Attachment, forget_unwanted};
use crate::manager::ops::read_domain_xml::read_live_domain;
use crate::manager::ops::remove_failed_attaches::remove_failed_attaches;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::manager::{CommandSuccess, DeviceChangeError};

/// One sync of a running domain.
struct Reconciliation<'a> {
    vm: &'a VmContext,
    request: &'a SyncRequest,
    desired: &'a DomainSpec,
    domain: &'a Arc<dyn Domain>,
    interrupted: &'a CancellationToken,
    changes_deadline: ChangesDeadline,
    /// The time that the hooks of all attached devices have together; it starts with the first device.
    hook_time: OnceLock<AttachTime>,
    /// The error of the first device whose hooks ran out of time. It is returned after the other changes were made.
    hooks_out_of_time: OnceLock<DeviceChangeError>,
}

/// The result of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeResult {
    /// libvirt has made the change.
    Applied,
    /// The image is not ready; a later sync makes the change.
    NotReady,
    /// A hook refuses the device, or has not answered in time.
    HeldByHook,
}

/// Changes the running domain to match `request`. `desired` is the domain that its VMI converts to.
pub(super) async fn reconcile(
    vm: &VmContext,
    request: &SyncRequest,
    desired: &DomainSpec,
    domain: &Arc<dyn Domain>,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, CommandError> {
    if vm.boot_resources.test_driver {
        return Ok(CommandSuccess::Unchanged);
    }
    remove_failed_attaches(vm, domain).await;
    let live = read_live_domain(vm, domain).await?;
    if !live.has_qemu_process() {
        return Ok(CommandSuccess::Unchanged);
    }
    detach_device::finish(vm, &live).await;
    let changes_deadline = ChangesDeadline::start();
    let reconciliation = Reconciliation {
        vm,
        request,
        desired,
        domain,
        interrupted,
        hook_time: OnceLock::new(),
        changes_deadline,
        hooks_out_of_time: OnceLock::new(),
    };
    let changes = plan(&request.vmi, desired, &live);
    unapplied_changes::report_occupied_targets(vm, desired, &live);
    let (mut volumes, mut interfaces) = (Vec::new(), Vec::new());
    for change in &changes {
        match change {
            DeviceChange::AttachDisk(_) => volumes.push(change.name()),
            DeviceChange::AttachInterface(_) => interfaces.push(change.name()),
            _ => {}
        }
    }
    forget_unwanted(vm, DeviceKind::Volume, &volumes);
    forget_unwanted(vm, DeviceKind::Interface, &interfaces);
    let result = reconciliation.apply_all(changes).await?;
    match reconciliation.hooks_out_of_time.into_inner() {
        Some(error) => Err(error.into()),
        None => Ok(result),
    }
}

impl Reconciliation<'_> {
    async fn apply(&self, change: &DeviceChange) -> Result<ChangeResult, CommandError> {
        safe_point(self.interrupted)?;
        if !self.changes_deadline.may_start_change() {
            return Err(DeviceChangeError::OutOfTime {
                change: change.to_string(),
            }
            .into());
        }
        let applied = match change {
            DeviceChange::AttachDisk(disk) => self.attach_disk(change, disk).await,
            DeviceChange::DetachDisk(device) | DeviceChange::DetachInterface(device) => {
                self.detach(device).await
            }
            DeviceChange::ChangeMedium(medium) => self.change_medium(medium).await,
            DeviceChange::AttachInterface(interface) => {
                self.attach_interface(change, interface).await
            }
            DeviceChange::SetLink(device) => self.set_link(device).await,
        };
        let applied = applied.map_err(|error| change_error(change, error))?;
        match applied {
            ChangeResult::Applied => tracing::info!(device = change.name(), "{change}: done"),
            ChangeResult::NotReady => {
                tracing::info!(device = change.name(), "{change}: not ready yet")
            }
            // Logged where the hook is called.
            ChangeResult::HeldByHook => {}
        }
        Ok(applied)
    }

    /// Calls the hooks of a device, and attaches it.
    async fn attach(
        &self,
        change: &DeviceChange,
        device: Attachment,
    ) -> Result<ChangeResult, CommandError> {
        let (vm, vmi) = (self.vm, &self.request.vmi);
        let start_hook_time = || {
            vm.hooks
                .attach_time()
                .until(self.changes_deadline.hooks_deadline())
        };
        let time = self.hook_time.get_or_init(start_hook_time);
        let attached = device.attach(vm, vmi, self.domain, time).await?;
        Ok(match attached {
            AttachResult::Attached => ChangeResult::Applied,
            AttachResult::RefusedByHook => ChangeResult::HeldByHook,
            AttachResult::HooksOutOfTime(reason) => {
                tracing::warn!(%reason, "{change}: put off");
                self.hooks_out_of_time
                    .get_or_init(|| DeviceChangeError::HooksOutOfTime {
                        change: change.to_string(),
                        request: "sync",
                        reason,
                    });
                ChangeResult::HeldByHook
            }
        })
    }

    /// Updates a device of the running domain and of its definition, or only of the running domain if the definition
    /// lacks the device.
    async fn update_device(
        &self,
        what: &'static str,
        xml: String,
    ) -> Result<ChangeResult, CommandError> {
        let update =
            move |domain: &dyn Domain| match domain.update_device(&xml, Affect::LiveAndConfig) {
                Err(error) if error.is_device_missing() => domain.update_device(&xml, Affect::Live),
                result => result,
            };
        self.vm
            .client
            .on(self.domain, what, COMMAND, update)
            .await?;
        Ok(ChangeResult::Applied)
    }
}

/// The error of a change, which names the change unless the VM is being ended.
fn change_error(change: &DeviceChange, error: CommandError) -> CommandError {
    match error.is_refusal() {
        true => error,
        false => DeviceChangeError::failed(change.to_string(), error.message()).into(),
    }
}
