//! Applies the changes of a sync in their order.

use domain::reconcile::{DeviceChange, LiveDomain};

use super::super::expand_disks;
use super::change_results::{ChangeResults, Wait};
use super::{Reconciliation, detach_device};
use crate::manager::DeviceChangeError;
use crate::manager::command_error::CommandError;
use crate::manager::ops::read_domain_xml::read_live_domain;

impl Reconciliation<'_> {
    /// Applies the changes of disks, expands disks, applies the changes of interfaces, and at last detaches the devices
    /// that the guest has kept before. `live` is the domain before the changes. Fails only when the VM is being ended.
    pub(super) async fn apply_all(
        &self,
        changes: Vec<DeviceChange>,
        mut live: LiveDomain,
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        let (kept, changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| self.is_kept(change));
        let (disks, interfaces): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(DeviceChange::is_of_disk);
        let (detached_disks, disks): (Vec<_>, Vec<_>) =
            disks.into_iter().partition(DeviceChange::is_detach);
        self.apply_each(&detached_disks, results).await?;
        if !detached_disks.is_empty()
            && let Some(now) = self.finish_detaches(results).await
        {
            live = now;
        }
        for change in &disks {
            match occupant(change, &live) {
                Some(occupant) => {
                    results.add_wait(change, Wait::for_other_disk(&occupant));
                }
                None => self.apply(change, results).await?,
            }
        }
        if results.changed_count > 0 {
            self.vm.driver_state().disk_capacities.forget();
        }
        expand_disks::expand_disks(
            self.vm,
            &self.request.vmi,
            self.desired,
            self.domain,
            &results.absent,
        )
        .await;
        self.apply_each(&interfaces, results).await?;
        if interfaces.iter().any(DeviceChange::is_detach) {
            self.finish_detaches(results).await;
        }
        self.detach_again(&kept, results).await
    }

    async fn apply_each(
        &self,
        changes: &[DeviceChange],
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        for change in changes {
            self.apply(change, results).await?;
        }
        Ok(())
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

    /// Detaches devices that the guest has kept before, as far as time allows.
    async fn detach_again(
        &self,
        kept: &[DeviceChange],
        results: &mut ChangeResults,
    ) -> Result<(), CommandError> {
        let before = results.changed_count;
        for change in kept {
            if !self.changes_deadline.may_start_change() {
                tracing::debug!("{change}: the guest keeps it; the next sync asks again");
            } else {
                self.apply(change, results).await?;
            }
        }
        if results.changed_count > before {
            self.finish_detaches(results).await;
            self.vm.driver_state().disk_capacities.forget();
        }
        Ok(())
    }

    /// Removes the overlays of devices that are gone, and reports devices that the guest keeps. Returns the running
    /// domain, if it can be read.
    async fn finish_detaches(&self, results: &mut ChangeResults) -> Option<LiveDomain> {
        match read_live_domain(self.vm, self.domain).await {
            Ok(live) => {
                detach_device::finish(self.vm, &live).await;
                Some(live)
            }
            Err(error) => {
                let change = "looking for devices that the guest has released".to_owned();
                let vmi = &self.request.vmi;
                let failure = DeviceChangeError::failed(change, error.message(), vmi);
                results.add_failure(failure, false);
                None
            }
        }
    }
}

/// The disk of the running domain that has the place of the disk to attach.
fn occupant(change: &DeviceChange, live: &LiveDomain) -> Option<String> {
    match change {
        DeviceChange::AttachDisk(attachment) => live.occupant(&attachment.disk),
        _ => None,
    }
}
