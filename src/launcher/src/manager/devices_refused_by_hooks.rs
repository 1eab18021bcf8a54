//! Devices that hooks refused. A hook is not asked again about the same device.

use std::collections::BTreeMap;
use std::fmt;

/// What a device is in the VMI.
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

/// A device by kind and name.
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
    /// Whether hooks have refused this device as it is.
    pub(super) fn contains(&self, key: &DeviceKey, xml: &str) -> bool {
        self.0.get(key).is_some_and(|refused| refused == xml)
    }

    /// A hook has refused the device.
    pub(super) fn insert(&mut self, key: DeviceKey, xml: String) {
        self.0.insert(key, xml);
    }

    /// Forgets devices of this kind that nobody wants any more: one that is wanted again is a new device.
    pub(super) fn retain(&mut self, kind: DeviceKind, is_wanted: impl Fn(&str) -> bool) {
        self.0
            .retain(|key, _| key.kind != kind || is_wanted(&key.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: DeviceKind, name: &str) -> DeviceKey {
        DeviceKey {
            kind,
            name: name.to_owned(),
        }
    }

    #[test]
    fn refused_device_is_remembered_until_it_changes_or_is_removed_from_the_vmi() {
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
}
