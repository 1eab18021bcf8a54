//! Changes the running domain as its VMI says: [`domain::reconcile`] plans, this module applies, one change after the
//! other. The first error ends the sync; what was done stays, and the next sync continues. A device that a hook refuses is
//! left out. Devices that the guest has kept before are asked for last: each costs the time that libvirt waits for it.
//!
//! ```text
//! live XML ─ plan ─▶ detach disks, attach disks, change media ─ expand disks ─ interfaces ─ kept devices
//! ```

mod attach_disk;
mod attach_interfaces;
mod change_cdrom_media;
mod changes_deadline;
mod detach_device;
mod image_readiness;

use std::sync::{Arc, OnceLock};

use changes_deadline::ChangesDeadline;
use domain::libvirt_spec::DomainSpec;
use domain::reconcile::{DeviceChange, plan};
use hook_host::AttachTime;
use libvirt::{Affect, Domain};
use tokio_util::sync::CancellationToken;

use super::{expand_disks, safe_point, unapplied_changes};
use crate::libvirt_client::COMMAND;
use crate::manager::devices_refused_by_hooks::DeviceKind;
use crate::manager::error::OpError;
use crate::manager::ops::attach_device::{AttachResult, Attachment, forget_unwanted};
use crate::manager::ops::read_domain::read_live_domain;
use crate::manager::ops::remove_failed_attaches::remove_failed_attaches;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::manager::{CommandSuccess, DeviceChangeError};

/// A sync of a running domain.
struct Reconciliation<'a> {
    vm: &'a VmContext,
    request: &'a SyncRequest,
    wanted: &'a DomainSpec,
    domain: &'a Arc<dyn Domain>,
    interrupted: &'a CancellationToken,
    time: ChangesDeadline,
    /// What hooks have for all devices that are attached, from the first of them on.
    hook_time: OnceLock<AttachTime>,
    /// The first device whose hooks ran out of time. The other changes are made all the same.
    late: OnceLock<DeviceChangeError>,
}

/// The result of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeResult {
    /// libvirt has made it.
    Yes,
    /// Its image is not ready; a later sync makes it.
    NotReady,
    /// A hook refuses the device, or has not answered in time.
    HeldByHook,
}

/// Brings the running domain to what `request` asks for. `wanted` is the domain that its VMI converts to.
pub(super) async fn reconcile(
    vm: &VmContext,
    request: &SyncRequest,
    wanted: &DomainSpec,
    domain: &Arc<dyn Domain>,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, OpError> {
    if vm.boot_resources.test_driver {
        return Ok(CommandSuccess::AlreadySo);
    }
    remove_failed_attaches(vm, domain).await;
    let live = read_live_domain(vm, domain).await?;
    if !live.is_running() {
        return Ok(CommandSuccess::AlreadySo);
    }
    detach_device::finish(vm, &live).await;
    let time = ChangesDeadline::start();
    let reconciliation = Reconciliation {
        vm,
        request,
        wanted,
        domain,
        interrupted,
        hook_time: OnceLock::new(),
        time,
        late: OnceLock::new(),
    };
    let changes = plan(&request.vmi, wanted, &live);
    unapplied_changes::report_occupied_targets(vm, wanted, &live);
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
    let answer = reconciliation.apply_all(changes).await?;
    match reconciliation.late.into_inner() {
        Some(late) => Err(late.into()),
        None => Ok(answer),
    }
}

impl Reconciliation<'_> {
    async fn apply_all(&self, changes: Vec<DeviceChange>) -> Result<CommandSuccess, OpError> {
        let (kept, changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| self.is_kept(change));
        let (disks, interfaces): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(DeviceChange::is_of_disk);
        let mut done = 0;
        let mut absent = Vec::new();
        let mut detached = Vec::new();
        for change in &disks {
            match self.apply(change).await? {
                ChangeResult::Yes => done += 1,
                ChangeResult::NotReady | ChangeResult::HeldByHook => {
                    absent.push(change.name().to_owned())
                }
            }
            if let DeviceChange::DetachDisk(device) = change {
                detached.push(device);
            }
        }
        if !detached.is_empty() {
            self.finish_detaches().await?;
        }
        if done > 0 {
            self.vm.driver_state().disk_capacities.forget();
        }
        expand_disks::expand_disks(
            self.vm,
            &self.request.vmi,
            self.wanted,
            self.domain,
            &absent,
        )
        .await;
        for change in &interfaces {
            if self.apply(change).await? == ChangeResult::Yes {
                done += 1;
            }
        }
        if interfaces
            .iter()
            .any(|one| matches!(one, DeviceChange::DetachInterface(_)))
        {
            self.finish_detaches().await?;
        }
        done += self.ask_again(&kept).await?;
        Ok(match done {
            0 => CommandSuccess::AlreadySo,
            _ => CommandSuccess::Changed,
        })
    }

    /// Whether the change detaches a device that the guest kept when it was asked before.
    fn is_kept(&self, change: &DeviceChange) -> bool {
        match change {
            DeviceChange::DetachDisk(device) | DeviceChange::DetachInterface(device) => {
                self.vm.driver_state().detaching.is_kept(&device.alias)
            }
            _ => false,
        }
    }

    /// Asks for devices that the guest has kept, as far as there is time. Returns how often libvirt did not fail.
    async fn ask_again(&self, kept: &[DeviceChange]) -> Result<usize, OpError> {
        let mut done = 0;
        for change in kept {
            if !self.time.may_begin() {
                tracing::debug!("{change}: the guest keeps it; the next sync asks again");
            } else if self.apply(change).await? == ChangeResult::Yes {
                done += 1;
            }
        }
        if done > 0 {
            self.finish_detaches().await?;
            self.vm.driver_state().disk_capacities.forget();
        }
        Ok(done)
    }

    async fn apply(&self, change: &DeviceChange) -> Result<ChangeResult, OpError> {
        safe_point(self.interrupted)?;
        if !self.time.may_begin() {
            return Err(DeviceChangeError::TooLate {
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
        let applied = applied.map_err(|error| failed(change, error))?;
        match applied {
            ChangeResult::Yes => tracing::info!(device = change.name(), "{change}: done"),
            ChangeResult::NotReady => {
                tracing::info!(device = change.name(), "{change}: not ready yet")
            }
            // This is logged where it happens.
            ChangeResult::HeldByHook => {}
        }
        Ok(applied)
    }

    /// Attaches a device, after its hooks.
    async fn attach(
        &self,
        change: &DeviceChange,
        device: Attachment,
    ) -> Result<ChangeResult, OpError> {
        let (vm, vmi) = (self.vm, &self.request.vmi);
        let all = || vm.hooks.attach_time().until(self.time.hooks_end());
        let time = self.hook_time.get_or_init(all);
        let attached = device.attach(vm, vmi, self.domain, time).await?;
        Ok(match attached {
            AttachResult::Yes => ChangeResult::Yes,
            AttachResult::RefusedByHook => ChangeResult::HeldByHook,
            AttachResult::Late(reason) => {
                tracing::warn!(%reason, "{change}: put off");
                self.late.get_or_init(|| DeviceChangeError::HooksLate {
                    change: change.to_string(),
                    request: "sync",
                    reason,
                });
                ChangeResult::HeldByHook
            }
        })
    }

    async fn finish_detaches(&self) -> Result<(), OpError> {
        let live = read_live_domain(self.vm, self.domain).await?;
        detach_device::finish(self.vm, &live).await;
        Ok(())
    }

    /// Updates a device of the running domain and of its definition, or of the running domain alone if the definition does
    /// not have it.
    async fn update_device(
        &self,
        what: &'static str,
        xml: String,
    ) -> Result<ChangeResult, OpError> {
        let update =
            move |domain: &dyn Domain| match domain.update_device(&xml, Affect::LiveAndConfig) {
                Err(error) if error.is_device_missing() => domain.update_device(&xml, Affect::Live),
                result => result,
            };
        self.vm
            .client
            .on(self.domain, what, COMMAND, update)
            .await?;
        Ok(ChangeResult::Yes)
    }
}

/// The error of a change. The end of the VM is no failure of its devices.
fn failed(change: &DeviceChange, error: OpError) -> OpError {
    match error.is_refusal() {
        true => error,
        false => DeviceChangeError::failed(change.to_string(), error.message()).into(),
    }
}
