//! Attaches a hotplugged disk.

use domain::driver_modes::set_disk_modes;
use domain::libvirt_spec::Disk;
use domain::reconcile::{DeviceChange, DiskAttachment, data_path, device_xml};
use libvirt::{Affect, Domain};

use super::Reconciliation;
use super::change_results::ChangeResult;
use super::hotplugged_image_check::{Access, why_not_ready};
use crate::blocking;
use crate::libvirt_client::COMMAND;
use crate::manager::command_error::CommandError;
use crate::manager::ops::attach_device::Attachment;
use crate::vm_boot::boot_resources::{BootResourceError, FILE_TIMEOUT};
use crate::vm_boot::disk_images::DriverModeProbe;

impl Reconciliation<'_> {
    pub(super) async fn attach_disk(
        &self,
        change: &DeviceChange,
        attachment: &DiskAttachment,
    ) -> Result<ChangeResult, CommandError> {
        let disk = &attachment.disk;
        let access = match disk.read_only {
            Some(_) => Access::Read,
            None => Access::ReadWrite,
        };
        if let Some(wait) = why_not_ready(&data_path(disk), access).await? {
            return Ok(ChangeResult::Waits(wait));
        }
        self.vm
            .boot_resources
            .changed_blocks(&self.request.vmi, disk)
            .await?;
        let disk = with_modes(disk.clone()).await?;
        let device = Attachment::volume(change.name(), device_xml("disk", &disk));
        for id in &attachment.new_io_threads {
            self.add_io_thread(*id).await?;
        }
        self.attach(change, device).await
    }

    /// Adds an IO thread that the disk to attach uses. If the disk is not attached, the thread stays, and serves the
    /// next one.
    async fn add_io_thread(&self, id: u32) -> Result<(), CommandError> {
        let add = move |domain: &dyn Domain| domain.add_io_thread(id, Affect::LiveAndConfig);
        let what = "adding an IO thread";
        self.vm.client.on(self.domain, what, COMMAND, add).await?;
        tracing::info!(id, "IO thread added to the running domain");
        Ok(())
    }
}

/// Sets the disk's cache and IO mode, which depend on its file system.
async fn with_modes(mut disk: Disk) -> Result<Disk, BootResourceError> {
    let probe = move || set_disk_modes(&mut disk, &DriverModeProbe).map(|()| disk);
    Ok(blocking::file_call("probing a disk's file system", FILE_TIMEOUT, probe).await??)
}
