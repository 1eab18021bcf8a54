//! Attaches interfaces to the tap devices that virt-handler has created for them, and sets their links.

use domain::libvirt_spec::Interface;
use domain::reconcile::{DeviceChange, LiveDevice, device_xml};

use super::Reconciliation;
use super::change_results::ChangeResult;
use crate::manager::command_error::CommandError;
use crate::manager::ops::attach_device::Attachment;

impl Reconciliation<'_> {
    pub(super) async fn attach_interface(
        &self,
        change: &DeviceChange,
        interface: &Interface,
    ) -> Result<ChangeResult, CommandError> {
        let resources = &self.vm.boot_resources;
        let connected =
            resources.hotplug_network(&self.request.vmi, &self.request.options, interface.clone());
        let xml = device_xml("interface", &connected.await?);
        let device = Attachment::interface(change.name(), xml);
        self.attach(change, device).await
    }

    pub(super) async fn set_link(&self, device: &LiveDevice) -> Result<ChangeResult, CommandError> {
        self.update_device("setting an interface's link", device.xml.clone())
            .await
    }
}
