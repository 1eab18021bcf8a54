//! Devices that the guest was asked to release. libvirt waits a few seconds for the guest, which may need longer or
//! never release them.

use std::collections::BTreeMap;
use std::fmt;

use domain::reconcile::{DeviceParts, LiveDevice};
use libvirt::BlockInfo;

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

/// The part of the VMI that a device comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeviceKind {
    Volume,
    Interface,
    /// An SR-IOV interface.
    HostDevice,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Volume => "volume",
            DeviceKind::Interface => "interface",
            DeviceKind::HostDevice => "SR-IOV interface",
        })
    }
}

/// The key of a device: its kind and its name in the VMI.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceKey {
    pub(super) kind: DeviceKind,
    /// The name in the VMI.
    pub(super) name: String,
}

/// Devices that hooks refused, with the XML that the hooks were called with. Pure.
#[derive(Debug, Default)]
pub(super) struct DevicesRefusedByHooks(BTreeMap<DeviceKey, String>);

impl DevicesRefusedByHooks {
    /// Whether hooks have refused this device with this XML.
    pub(super) fn contains(&self, key: &DeviceKey, xml: &str) -> bool {
        self.0.get(key).is_some_and(|refused| refused == xml)
    }

    /// Records that a hook has refused the device.
    pub(super) fn insert(&mut self, key: DeviceKey, xml: String) {
        self.0.insert(key, xml);
    }

    /// Forgets the devices of this kind that the VMI no longer asks for: one that is added again counts as new.
    pub(super) fn retain(&mut self, kind: DeviceKind, is_wanted: impl Fn(&str) -> bool) {
        self.0
            .retain(|key, _| key.kind != kind || is_wanted(&key.name));
    }
}

/// The capacities of the running VM's disks by their sources' paths, as libvirt last reported them. Pure.
///
/// The capacities are cached because QEMU needs many milliseconds to answer. When the launcher attaches, detaches or
/// expands a disk, it forgets all of them. A change by another client of libvirt is noticed before a disk is expanded,
/// because the capacities are read again then.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskCapacities(BTreeMap<String, u64>);

impl DiskCapacities {
    /// The capacity of the disk with this source path, in bytes.
    pub(super) fn get(&self, path: &str) -> Option<u64> {
        self.0.get(path).copied()
    }

    /// Replaces all capacities by those that libvirt reports; it reports 0 for an unknown one.
    pub(super) fn replace(&mut self, sizes: &BTreeMap<String, BlockInfo>) {
        let known = sizes.iter().filter(|(_, size)| size.capacity > 0);
        self.0 = known
            .map(|(path, size)| (path.clone(), size.capacity))
            .collect();
    }

    /// Forgets all capacities.
    pub(super) fn forget(&mut self) {
        self.0.clear();
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

    fn key(kind: DeviceKind, name: &str) -> DeviceKey {
        DeviceKey {
            kind,
            name: name.to_owned(),
        }
    }

    #[test]
    fn device_stays_refused_until_its_xml_changes_or_the_vmi_drops_it() {
        let mut refused = DevicesRefusedByHooks::default();
        let (disk, nic) = (
            key(DeviceKind::Volume, "a"),
            key(DeviceKind::Interface, "a"),
        );
        refused.insert(disk.clone(), "<disk/>".into());
        refused.insert(nic.clone(), "<interface/>".into());
        assert!(refused.contains(&disk, "<disk/>") && refused.contains(&nic, "<interface/>"));
        assert!(!refused.contains(&disk, "<disk x='1'/>"));
        refused.retain(DeviceKind::Volume, |name| name == "a");
        assert!(refused.contains(&disk, "<disk/>"));
        refused.retain(DeviceKind::Volume, |_| false);
        assert!(!refused.contains(&disk, "<disk/>") && refused.contains(&nic, "<interface/>"));
    }

    #[test]
    fn capacity_that_libvirt_does_not_know_is_not_cached() {
        let size = |capacity| BlockInfo {
            capacity,
            ..BlockInfo::default()
        };
        let mut capacities = DiskCapacities::default();
        capacities.replace(&BTreeMap::from([
            ("a".into(), size(5)),
            ("b".into(), size(0)),
        ]));
        assert_eq!((capacities.get("a"), capacities.get("b")), (Some(5), None));
        capacities.forget();
        assert_eq!(capacities.get("a"), None);
    }
}
