//! Devices that hooks refused. A hook is not asked again about the same device.

use std::collections::BTreeMap;

/// A device by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceKey {
    /// `volume`, `interface` or `SR-IOV interface`.
    pub(super) kind: &'static str,
    /// The name in the VMI.
    pub(super) name: String,
}

/// Devices that hooks refused, with the XML that the hooks were called with. Pure.
#[derive(Debug, Default)]
pub(super) struct RefusedDevices(BTreeMap<DeviceKey, String>);

impl RefusedDevices {
    /// Whether hooks have refused this device as it is.
    pub(super) fn contains(&self, key: &DeviceKey, xml: &str) -> bool {
        self.0.get(key).is_some_and(|refused| refused == xml)
    }

    /// A hook has refused the device.
    pub(super) fn insert(&mut self, key: DeviceKey, xml: String) {
        self.0.insert(key, xml);
    }

    /// Forgets devices of these kinds that nobody wants any more: one that is wanted again is a new device.
    pub(super) fn retain(&mut self, kinds: &[&str], is_wanted: impl Fn(&DeviceKey) -> bool) {
        self.0
            .retain(|key, _| !kinds.contains(&key.kind) || is_wanted(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &'static str, name: &str) -> DeviceKey {
        DeviceKey {
            kind,
            name: name.to_owned(),
        }
    }

    #[test]
    fn refused_device_is_known_until_it_changes_or_is_not_wanted() {
        let mut refused = RefusedDevices::default();
        let (disk, nic) = (key("volume", "a"), key("interface", "a"));
        refused.insert(disk.clone(), "<disk/>".into());
        refused.insert(nic.clone(), "<interface/>".into());
        assert!(refused.contains(&disk, "<disk/>") && refused.contains(&nic, "<interface/>"));
        assert!(!refused.contains(&disk, "<disk x='1'/>"));
        refused.retain(&["volume"], |_| true);
        assert!(refused.contains(&disk, "<disk/>"));
        refused.retain(&["volume"], |_| false);
        assert!(!refused.contains(&disk, "<disk/>") && refused.contains(&nic, "<interface/>"));
    }
}
