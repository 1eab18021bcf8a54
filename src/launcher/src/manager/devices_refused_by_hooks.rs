//! Devices that hooks refused. Hooks are not called again for the same device with the same XML.

use std::collections::BTreeMap;
use std::fmt;

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
}
