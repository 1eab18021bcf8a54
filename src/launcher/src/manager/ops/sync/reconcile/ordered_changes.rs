//! Applies the changes of a sync in their order.

use domain::reconcile::DeviceChange;

use super::super::expand_disks;
use super::{ChangeResult, Reconciliation, detach_device};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::ops::read_domain_xml::read_live_domain;

impl Reconciliation<'_> {
    /// Applies the changes of disks, expands disks, applies the changes of interfaces, and at last detaches the devices
    /// that the guest has kept before.
    pub(super) async fn apply_all(
        &self,
        changes: Vec<DeviceChange>,
    ) -> Result<CommandSuccess, CommandError> {
        let (kept, changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| self.is_kept(change));
        let (disks, interfaces): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(DeviceChange::is_of_disk);
        let mut changed_count = 0;
        let mut absent = Vec::new();
        let mut detached = Vec::new();
        for change in &disks {
            match self.apply(change).await? {
                ChangeResult::Applied => changed_count += 1,
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
        if changed_count > 0 {
            self.vm.driver_state().disk_capacities.forget();
        }
        expand_disks::expand_disks(
            self.vm,
            &self.request.vmi,
            self.desired,
            self.domain,
            &absent,
        )
        .await;
        for change in &interfaces {
            if self.apply(change).await? == ChangeResult::Applied {
                changed_count += 1;
            }
        }
        if interfaces
            .iter()
            .any(|change| matches!(change, DeviceChange::DetachInterface(_)))
        {
            self.finish_detaches().await?;
        }
        changed_count += self.detach_again(&kept).await?;
        Ok(match changed_count {
            0 => CommandSuccess::Unchanged,
            _ => CommandSuccess::Changed,
        })
    }

    /// Whether the change detaches a device that the guest did not release when it was asked before.
    fn is_kept(&self, change: &DeviceChange) -> bool {
        match change {
            DeviceChange::DetachDisk(device) | DeviceChange::DetachInterface(device) => {
                self.vm.driver_state().detaching.is_kept(&device.alias)
            }
            _ => false,
        }
    }

    /// Detaches devices that the guest has kept before, as far as time allows. Returns the number of calls that
    /// succeeded.
    async fn detach_again(&self, kept: &[DeviceChange]) -> Result<usize, CommandError> {
        let mut changed_count = 0;
        for change in kept {
            if !self.changes_deadline.may_start_change() {
                tracing::debug!("{change}: the guest keeps it; the next sync asks again");
            } else if self.apply(change).await? == ChangeResult::Applied {
                changed_count += 1;
            }
        }
        if changed_count > 0 {
            self.finish_detaches().await?;
            self.vm.driver_state().disk_capacities.forget();
        }
        Ok(changed_count)
    }

    /// Removes the overlays of devices that are gone, and reports devices that the guest keeps.
    async fn finish_detaches(&self) -> Result<(), CommandError> {
        let live = read_live_domain(self.vm, self.domain).await?;
        detach_device::finish(self.vm, &live).await;
        Ok(())
    }
}
