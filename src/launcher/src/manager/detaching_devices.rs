//! Devices that the guest was asked to release. libvirt waits a few seconds for the guest, which may need longer or
//! never release them.

use std::collections::BTreeMap;

use domain::reconcile::LiveDevice;

/// Devices that the guest was asked to release, by alias. Pure.
#[derive(Debug, Default)]
pub(super) struct DetachingDevices(BTreeMap<String, DetachingDevice>);

#[derive(Debug)]
struct DetachingDevice {
    name: String,
    /// The image of changed blocks, which is removed after the device is gone.
    overlay: Option<String>,
    is_reported: bool,
}

/// What has become of the detaching devices, according to the running domain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DetachProgress {
    /// Overlays of devices that are gone, to be removed.
    pub(super) overlays: Vec<String>,
    /// Devices that the guest still has, to be reported. Each device is listed only once.
    pub(super) kept: Vec<String>,
}

impl DetachingDevices {
    /// Records that the guest is about to be asked to release a device.
    pub(super) fn request(&mut self, device: &LiveDevice) {
        let requested = || DetachingDevice {
            name: device.name.clone(),
            overlay: device.overlay.clone(),
            is_reported: false,
        };
        self.0.entry(device.alias.clone()).or_insert_with(requested);
    }

    /// Whether the guest still had the device after it was asked to release it.
    pub(super) fn is_kept(&self, alias: &str) -> bool {
        self.0.get(alias).is_some_and(|device| device.is_reported)
    }

    /// Forgets the devices that are no longer in the domain.
    pub(super) fn observe(&mut self, is_live: impl Fn(&str) -> bool) -> DetachProgress {
        let mut progress = DetachProgress::default();
        self.0.retain(|alias, device| {
            let is_kept = is_live(alias);
            if !is_kept {
                progress.overlays.extend(device.overlay.take());
            } else if !std::mem::replace(&mut device.is_reported, true) {
                progress.kept.push(device.name.clone());
            }
            is_kept
        });
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_device_is_reported_once_and_its_overlay_is_removed_after_its_release() {
        let mut detaching = DetachingDevices::default();
        let device = LiveDevice {
            name: "data".into(),
            alias: "ua-data".into(),
            xml: String::new(),
            overlay: Some("/cbt/data.qcow2".into()),
        };
        detaching.request(&device);
        assert!(!detaching.is_kept("ua-data"));
        assert_eq!(detaching.observe(|alias| alias == "ua-data").kept, ["data"]);
        assert!(detaching.is_kept("ua-data"));
        detaching.request(&device);
        assert_eq!(detaching.observe(|_| true), DetachProgress::default());
        assert_eq!(detaching.observe(|_| false).overlays, ["/cbt/data.qcow2"]);
        assert_eq!(detaching.observe(|_| false), DetachProgress::default());
    }
}
