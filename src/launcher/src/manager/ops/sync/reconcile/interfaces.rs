//! Attaches interfaces to the tap devices that virt-handler has made for them, and sets their links.

use domain::reconcile::{LiveDevice, device_xml};
use domain::spec::Interface;
use libvirt::Affect;

use super::{Applied, Reconciliation};
use crate::libvirt_client::COMMAND;
use crate::manager::error::OpError;

impl Reconciliation<'_> {
    pub(super) async fn attach_interface(&self, interface: &Interface) -> Result<Applied, OpError> {
        let resources = &self.vm.boot_resources;
        let connected =
            resources.hotplug_network(&self.request.vmi, &self.request.options, interface.clone());
        let xml = device_xml("interface", &connected.await?);
        tracing::debug!(xml, "attaching an interface");
        let attach =
            move |domain: &dyn libvirt::Domain| domain.attach_device(&xml, Affect::LiveAndConfig);
        self.vm
            .client
            .on(self.domain, "attaching an interface", COMMAND, attach)
            .await?;
        Ok(Applied::Yes)
    }

    pub(super) async fn set_link(&self, device: &LiveDevice) -> Result<Applied, OpError> {
        self.update("setting an interface's link", device.xml.clone())
            .await
    }
}
