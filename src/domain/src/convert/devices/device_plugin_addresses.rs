//! Addresses of the devices that device plugins allocated to the pod, from environment variables, by resource.

use std::collections::BTreeMap;

use crate::host_facts::HostFacts;

/// The kind of address that a device plugin provides, which determines the prefix of its environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressKind {
    Pci,
    Mdev,
    Usb,
}

impl AddressKind {
    /// The environment variable of a resource, such as `PCI_RESOURCE_NVIDIA_COM_GPU` for `nvidia.com/gpu`.
    pub(crate) fn variable(self, resource: &str) -> String {
        let prefix = match self {
            Self::Pci => "PCI_RESOURCE",
            Self::Mdev => "MDEV_PCI_RESOURCE",
            Self::Usb => "USB_RESOURCE",
        };
        let name = resource.to_uppercase().replace(['/', '.'], "_");
        format!("{prefix}_{name}")
    }
}

/// Addresses that are not assigned to a device yet.
pub(crate) struct DevicePool<'a> {
    by_resource: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> DevicePool<'a> {
    pub(crate) fn new(
        kind: AddressKind,
        resources: impl Iterator<Item = &'a str>,
        host: &'a HostFacts,
    ) -> Self {
        let addresses = |resource: &str| {
            let value = host.device_plugins.get(&kind.variable(resource))?;
            let value = value.strip_suffix(',').unwrap_or(value);
            Some(value.split(',').collect())
        };
        Self {
            by_resource: resources
                .filter_map(|resource| Some((resource, addresses(resource)?)))
                .collect(),
        }
    }

    /// Takes the next address of a resource, and removes it from all resources, because they may share devices.
    /// An empty address means no device.
    pub(crate) fn take(&mut self, resource: &str) -> Option<&'a str> {
        let address = *self.by_resource.get(resource)?.first()?;
        for addresses in self.by_resource.values_mut() {
            addresses.retain(|other| *other != address);
        }
        (!address.is_empty()).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_taken_once() {
        let host = HostFacts {
            device_plugins: BTreeMap::from([
                ("PCI_RESOURCE_EXAMPLE_COM_A".into(), "1,2,".into()),
                ("PCI_RESOURCE_EXAMPLE_COM_B".into(), "1,3,,4".into()),
                ("PCI_RESOURCE_EXAMPLE_COM_C".into(), String::new()),
            ]),
            ..HostFacts::default()
        };
        let (a, b, c) = ("example.com/a", "example.com/b", "example.com/c");
        let mut pool = DevicePool::new(AddressKind::Pci, [a, b, c, "other"].into_iter(), &host);
        assert_eq!(pool.take(a), Some("1"));
        assert_eq!(pool.take(b), Some("3"));
        assert_eq!(pool.take(b), None);
        assert_eq!(pool.take(b), Some("4"));
        assert_eq!(pool.take(b), None);
        assert_eq!(pool.take(c), None);
        assert_eq!(pool.take("other"), None);
        assert_eq!(pool.take(a), Some("2"));
    }
}
