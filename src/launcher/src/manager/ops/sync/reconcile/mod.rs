//! Changes the running domain to match its VMI: [`domain::reconcile`] plans the changes, this module applies them one
//! after the other. The changes are independent: a change that fails holds up no other. The sync's error names all that
//! failed, one Kubernetes event reports each, and the next sync tries again. A device that a hook refuses is left out.
//! Devices that the guest has not released before come last, because libvirt waits for each.
//!
//! ```text
//! live XML ─ plan ─▶ detach disks, attach disks, change media ─ expand disks ─ interfaces ─ kept devices
//! ```

mod attach_disk;
mod change_cdrom_media;
mod change_results;
mod changes_deadline;
mod detach_device;
mod hotplugged_image_check;
mod interface_changes;
mod ordered_changes;

use std::sync::{Arc, OnceLock};

use change_results::{ChangeResult, ChangeResults, is_of_device};
use changes_deadline::ChangesDeadline;
use domain::libvirt_spec::DomainSpec;
use domain::reconcile::{DeviceChange, Plan, plan};
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
use crate::manager::reported_conditions::Subject;
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
    };
    let Plan { changes, held } = plan(&request.vmi, desired, &live);
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
    let mut results = ChangeResults::with_held(&held);
    reconciliation
        .apply_all(changes, live, &mut results)
        .await?;
    unapplied_changes::report_waiting_volumes(vm, results.waiting);
    unapplied_changes::report_failed_changes(vm, Subject::FailedChanges, results.failed);
    match DeviceChangeError::of_all(results.failures) {
        Some(error) => Err(error.into()),
        None if results.changed_count > 0 => Ok(CommandSuccess::Changed),
        None => Ok(CommandSuccess::Unchanged),
    }
}

impl Reconciliation<'_> {
    /// Makes a change. Fails only when the VM is being ended. A failure of the change is logged with the sync's answer.
    async fn apply(
        &self,
        change: &DeviceChange,
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        safe_point(self.interrupted)?;
        let text = change.to_string();
        if !self.changes_deadline.may_start_change() {
            let failure = DeviceChangeError::OutOfTime { change: text };
            results.add_failure(failure, false);
            results.absent.push(change.name().to_owned());
            return Ok(());
        }
        match self.make(change).await {
            Ok(ChangeResult::Applied) => {
                tracing::info!(device = change.name(), "{change}: done");
                results.changed_count += 1;
                return Ok(());
            }
            Ok(ChangeResult::Waits(wait)) => {
                results.add_wait(change, wait);
                return Ok(());
            }
            // Logged where the hook is called.
            Ok(ChangeResult::HeldByHook) => {}
            Err(error) if error.is_refusal() => return Err(error),
            Err(CommandError::DeviceChange(failure)) => {
                tracing::debug!(device = change.name(), "{failure}");
                results.add_failure(failure, false);
            }
            Err(error) => {
                let is_of_device = is_of_device(&error);
                let vmi = &self.request.vmi;
                let failure = DeviceChangeError::failed(text, error.message(), vmi);
                tracing::debug!(device = change.name(), "{failure}");
                results.add_failure(failure, is_of_device);
            }
        }
        results.absent.push(change.name().to_owned());
        Ok(())
    }

    async fn make(&self, change: &DeviceChange) -> Result<ChangeResult, CommandError> {
        match change {
            DeviceChange::AttachDisk(attachment) => self.attach_disk(change, attachment).await,
            DeviceChange::DetachDisk(device) | DeviceChange::DetachInterface(device) => {
                self.detach(device).await
            }
            DeviceChange::ChangeMedium(medium) => self.change_medium(medium).await,
            DeviceChange::AttachInterface(interface) => {
                self.attach_interface(change, interface).await
            }
            DeviceChange::SetLink(device) => self.set_link(device).await,
        }
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
                let out_of_time = DeviceChangeError::HooksOutOfTime {
                    change: change.to_string(),
                    request: "sync",
                    reason,
                };
                return Err(out_of_time.into());
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
