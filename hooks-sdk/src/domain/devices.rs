//! Finds devices by their names in the VMI or the guest.

use domain_xml::Element;

use super::Domain;

/// KubeVirt's prefixes between `ua-` and the VMI's name in the alias of a host device, by its
/// source (`AliasPrefix` in pkg/virt-launcher/virtwrap/device/hostdevice, v1.9).
const HOST_DEVICE_PREFIXES: [&str; 6] = [
    "",
    "gpu-",
    "hostdevice-",
    "sriov-",
    "dra-gpu-",
    "dra-hostdevice-",
];

impl Domain {
    /// `<devices>`, added if it is missing.
    pub fn devices(&mut self) -> &mut Element {
        self.ensure_child("devices")
    }

    /// The devices of a kind: `disk`, `interface`, `controller`, ...
    pub fn devices_of<'d>(&'d mut self, kind: &'d str) -> impl Iterator<Item = &'d mut Element> {
        let devices = self.child_mut("devices").into_iter();
        devices
            .flat_map(Element::children_mut)
            .filter(move |device| device.is(kind))
    }

    /// The device with this alias, of any kind. KubeVirt's prefix `ua-` before the VMI's name is
    /// optional.
    pub fn device(&mut self, alias: &str) -> Option<&mut Element> {
        let devices = self.child_mut("devices")?;
        devices
            .children_mut()
            .find(|device| has_alias(device, "", alias))
    }

    /// The disk of a VMI's volume, or the one with this target (`vda`).
    ///
    /// ```
    /// # use hooks_sdk::Domain;
    /// let mut domain = Domain::parse("<domain><devices><disk><target dev='vda'/><alias name='ua-root'/></disk></devices></domain>")?;
    /// if let Some(disk) = domain.disk("root") {
    ///     disk.ensure_child("driver").set_attr("queues", "2");
    /// }
    /// assert_eq!(domain.disk("vda").unwrap().value("driver/@queues")?.as_deref(), Some("2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn disk(&mut self, volume_or_target: &str) -> Option<&mut Element> {
        self.find_device("disk", |disk| {
            has_alias(disk, "", volume_or_target) || has(disk, "target", "dev", volume_or_target)
        })
    }

    /// The interface of this name in the VMI, or the one with this MAC address or this target
    /// (`tap0`).
    pub fn interface(&mut self, name_or_target: &str) -> Option<&mut Element> {
        self.find_device("interface", |interface| {
            has_alias(interface, "", name_or_target)
                || has(interface, "target", "dev", name_or_target)
                || has_mac(interface, name_or_target)
        })
    }

    /// The host device of this name in the VMI (a GPU, a host device, an SR-IOV interface), or the
    /// one with this PCI address (`0000:65:00.0`) or mediated device's UUID.
    pub fn host_device(&mut self, name_or_address: &str) -> Option<&mut Element> {
        self.find_device("hostdev", |device| {
            HOST_DEVICE_PREFIXES
                .iter()
                .any(|prefix| has_alias(device, prefix, name_or_address))
                || is_at(device, name_or_address)
        })
    }

    fn find_device(
        &mut self,
        kind: &str,
        is_it: impl Fn(&Element) -> bool,
    ) -> Option<&mut Element> {
        let devices = self.child_mut("devices")?;
        devices
            .children_mut()
            .find(|device| device.is(kind) && is_it(device))
    }
}

fn has(device: &Element, child: &str, attribute: &str, wanted: &str) -> bool {
    device
        .child(child)
        .and_then(|child| child.attr(attribute))
        .is_some_and(|value| value == wanted)
}

fn has_alias(device: &Element, prefix: &str, name: &str) -> bool {
    let Some(alias) = device.child("alias").and_then(|alias| alias.attr("name")) else {
        return false;
    };
    let of_vmi = alias
        .strip_prefix("ua-")
        .and_then(|alias| alias.strip_prefix(prefix));
    alias == name || of_vmi == Some(name)
}

fn has_mac(interface: &Element, address: &str) -> bool {
    let mac = interface.child("mac").and_then(|mac| mac.attr("address"));
    mac.is_some_and(|mac| mac.eq_ignore_ascii_case(address))
}

/// Whether a device's source is at this PCI address, or is this mediated device.
fn is_at(device: &Element, wanted: &str) -> bool {
    let source = device.child("source");
    let Some(address) = source.and_then(|source| source.child("address")) else {
        return false;
    };
    if address.attr("uuid").is_some_and(|uuid| uuid == wanted) {
        return true;
    }
    let parts = ["domain", "bus", "slot", "function"].map(|part| number(address.attr(part)));
    matches!((parts, pci(wanted)), ([Some(domain), Some(bus), Some(slot), Some(function)], Some(pci))
        if pci == [domain, bus, slot, function])
}

fn number(hexadecimal: Option<impl AsRef<str>>) -> Option<u32> {
    let hexadecimal = hexadecimal?;
    let digits = hexadecimal.as_ref();
    u32::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
}

/// The numbers of `0000:65:00.0`.
fn pci(address: &str) -> Option<[u32; 4]> {
    let (domain, rest) = address.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (slot, function) = rest.split_once('.')?;
    let [domain, bus, slot, function] =
        [domain, bus, slot, function].map(|part| number(Some(part)));
    Some([domain?, bus?, slot?, function?])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const XML: &str = "<domain type='kvm'>
  <name>ns_vm</name>
  <devices>
    <disk><target dev='vda'/><alias name='ua-root'/></disk>
    <interface><mac address='02:00:00:00:00:0a'/><target dev='tap0'/><alias name='ua-default'/></interface>
    <hostdev><source><address domain='0x0000' bus='0x65' slot='0x00' function='0x0'/></source><alias name='ua-gpu-big'/></hostdev>
    <hostdev><source><address uuid='5a-b'/></source><alias name='ua-hostdevice-nic'/></hostdev>
  </devices>
</domain>";

    #[test]
    fn devices_are_found_by_the_names_of_the_vmi_and_by_their_targets() {
        let mut domain = Domain::parse(XML).unwrap();
        assert_eq!(domain.domain_name(), "ns_vm");
        for name in ["root", "vda", "ua-root"] {
            assert!(domain.disk(name).is_some(), "{name}");
        }
        for name in ["default", "ua-default", "02:00:00:00:00:0A", "tap0"] {
            assert!(domain.interface(name).is_some(), "{name}");
        }
        for (name, alias) in [
            ("big", "ua-gpu-big"),
            ("nic", "ua-hostdevice-nic"),
            ("0000:65:00.0", "ua-gpu-big"),
            ("5a-b", "ua-hostdevice-nic"),
        ] {
            let device = domain.host_device(name).unwrap();
            assert_eq!(device.value("alias/@name").unwrap().as_deref(), Some(alias));
        }
        assert!(domain.disk("vdb").is_none() && domain.disk("default").is_none());
        assert!(domain.host_device("0000:65:00.1").is_none());
        assert!(domain.host_device("65:00").is_none());
        assert!(domain.device("default").unwrap().is("interface"));
        assert_eq!(domain.devices_of("hostdev").count(), 2);
    }

    #[test]
    fn an_edit_of_a_device_is_all_that_changes() {
        let mut domain = Domain::parse(XML).unwrap();
        let driver = domain.disk("root").unwrap().ensure_child("driver");
        driver.set_attr("queues", "2");
        assert_eq!(
            domain.render(),
            XML.replace("'ua-root'/>", "'ua-root'/><driver queues='2'/>")
        );
        let mut bare = Domain::parse("<domain/>").unwrap();
        assert!(bare.disk("vda").is_none() && bare.device("x").is_none());
        assert_eq!(bare.render(), "<domain/>");
    }
}
