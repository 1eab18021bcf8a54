//! Devices whose attach failed: QEMU may have them, or parts of them, without libvirt's knowledge.

use std::collections::BTreeMap;

use domain::reconcile::DeviceParts;

/// Devices whose attach was begun and has not succeeded, by alias. Pure.
#[derive(Debug, Default)]
pub(super) struct FailedAttaches(BTreeMap<String, DeviceParts>);

impl FailedAttaches {
    /// The attach of a device begins; `None` for one whose alias libvirt chooses.
    pub(super) fn extend(&mut self, device: Option<DeviceParts>) {
        let device = device.map(|device| (device.alias().to_owned(), device));
        self.0.extend(device);
    }

    /// libvirt knows the device, or QEMU has nothing of it.
    pub(super) fn remove(&mut self, alias: &str) {
        self.0.remove(alias);
    }

    /// The devices to ask QEMU about.
    pub(super) fn devices(&self) -> Vec<DeviceParts> {
        self.0.values().cloned().collect()
    }
}
