//! Attaches a hotplugged disk.

use domain::driver_modes::set_disk_modes;
use domain::libvirt_spec::Disk;
use domain::reconcile::{DeviceChange, data_path, device_xml};

use super::{ChangeResult, Reconciliation, hotplugged_image_check};
use crate::blocking;
use crate::manager::command_error::CommandError;
use crate::manager::ops::attach_device::Attachment;
use crate::vm_boot::boot_resources::{BootResourceError, FILE_TIMEOUT};
use crate::vm_boot::disk_images::DriverModeProbe;

impl Reconciliation<'_> {
    pub(super) async fn attach_disk(
        &self,
        change: &DeviceChange,
        disk: &Disk,
    ) -> Result<ChangeResult, CommandError> {
        if !hotplugged_image_check::is_ready(&data_path(disk)).await? {
            return Ok(ChangeResult::NotReady);
        }
        self.vm
            .boot_resources
            .changed_blocks(&self.request.vmi, disk)
            .await?;
        let disk = with_modes(disk.clone()).await?;
        let device = Attachment::volume(change.name(), device_xml("disk", &disk));
        self.attach(change, device).await
    }
}

/// Sets the disk's cache and IO mode, which depend on its file system.
async fn with_modes(mut disk: Disk) -> Result<Disk, BootResourceError> {
    let probe = move || set_disk_modes(&mut disk, &DriverModeProbe).map(|()| disk);
    Ok(blocking::file_call("probing a disk's file system", FILE_TIMEOUT, probe).await??)
}
