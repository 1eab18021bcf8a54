//! The names that KubeVirt gives devices: an alias of `ua-` and the VMI's name.

use domain_xml::Element;

/// KubeVirt's prefixes between `ua-` and the VMI's name in the alias of a host device, by its
/// source (`AliasPrefix` and `createUSBHostDevice` in pkg/virt-launcher/virtwrap/device/hostdevice, v1.9).
const HOST_DEVICE_PREFIXES: [&str; 6] = [
    "gpu-",
    "hostdevice-",
    "sriov-",
    "usb-host-",
    "dra-gpu-",
    "dra-hostdevice-",
];

/// The name that a device has in the VMI: its alias without KubeVirt's prefixes.
pub(crate) fn vmi_name(device: &Element) -> Option<String> {
    let alias = device.child("alias")?.attr("name")?;
    let name = alias.strip_prefix("ua-").unwrap_or(&alias);
    let without_prefix = |prefix: &&str| name.strip_prefix(*prefix);
    let of_host_device = match device.is("hostdev") && name.len() < alias.len() {
        true => HOST_DEVICE_PREFIXES.iter().find_map(without_prefix),
        false => None,
    };
    Some(of_host_device.unwrap_or(name).to_owned())
}

/// Whether this is the device's alias, with or without KubeVirt's prefixes.
pub(crate) fn matches(device: &Element, name: &str) -> bool {
    let Some(alias) = device.child("alias").and_then(|alias| alias.attr("name")) else {
        return false;
    };
    alias == name
        || alias.strip_prefix("ua-") == Some(name)
        || vmi_name(device).as_deref() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: &str, alias: &str) -> Element {
        let alias = Element::new("alias").with_attr("name", alias);
        Element::new(kind).with_child(alias)
    }

    #[test]
    fn the_vmi_name_is_the_alias_without_kubevirts_prefixes() {
        for (kind, alias, name) in [
            ("disk", "ua-data", "data"),
            ("disk", "ua-gpu-data", "gpu-data"),
            ("interface", "ua-sriov-net1", "sriov-net1"),
            ("hostdev", "ua-gpu-big", "big"),
            ("hostdev", "ua-gpu-gpu-big", "gpu-big"),
            ("hostdev", "ua-hostdevice-nic", "nic"),
            ("hostdev", "ua-sriov-net1", "net1"),
            ("hostdev", "ua-usb-host-stick", "stick"),
            ("hostdev", "ua-dra-gpu-a", "a"),
            ("hostdev", "ua-dra-hostdevice-b", "b"),
            ("hostdev", "ua-other", "other"),
            ("hostdev", "gpu-big", "gpu-big"),
            ("hostdev", "hostdev0", "hostdev0"),
        ] {
            let device = device(kind, alias);
            assert_eq!(vmi_name(&device).as_deref(), Some(name), "{kind} {alias}");
            assert!(matches(&device, name) && matches(&device, alias));
        }
        assert_eq!(vmi_name(&Element::new("disk")), None);
        assert!(!matches(&Element::new("disk"), ""));
    }

    #[test]
    fn a_disk_is_not_found_without_a_part_of_its_name() {
        assert!(!matches(&device("disk", "ua-gpu-data"), "data"));
        assert!(matches(&device("hostdev", "ua-gpu-big"), "gpu-big"));
    }
}
