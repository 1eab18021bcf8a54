//! Devices whose attach failed: QEMU may have them, or parts of them, while libvirt does not know them.

use std::collections::BTreeMap;

use domain::reconcile::DeviceParts;

/// Devices whose attach has begun and has not succeeded, by alias. Pure.
#[derive(Debug, Default)]
pub(super) struct FailedAttaches(BTreeMap<String, DeviceParts>);

impl FailedAttaches {
    /// Adds a device whose attach begins; `None` is a device whose alias libvirt chooses, which cannot be tracked.
    pub(super) fn extend(&mut self, device: Option<DeviceParts>) {
        let device = device.map(|device| (device.alias().to_owned(), device));
        self.0.extend(device);
    }

    /// Removes a device that libvirt knows, or of which QEMU has no part.
    pub(super) fn remove(&mut self, alias: &str) {
        self.0.remove(alias);
    }

    /// The devices to ask QEMU about.
    pub(super) fn devices(&self) -> Vec<DeviceParts> {
        self.0.values().cloned().collect()
    }
}
