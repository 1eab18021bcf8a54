//! Finds devices by their names in the VMI or the guest.

#[cfg(test)]
mod tests;

use domain_xml::Element;

use super::Domain;
use crate::device_alias;

impl Domain {
    /// `<devices>`, if the domain has it.
    pub fn devices(&self) -> Option<&Element> {
        self.child("devices")
    }

    /// `<devices>`, added if it is missing.
    pub fn devices_mut(&mut self) -> &mut Element {
        self.ensure_child("devices")
    }

    /// The devices of a kind: `disk`, `interface`, `controller`, ...
    pub fn devices_of<'d>(&'d self, kind: &'d str) -> impl Iterator<Item = &'d Element> {
        let devices = self.devices().into_iter();
        devices.flat_map(move |devices| devices.children_named(kind))
    }

    /// The devices of a kind, to edit.
    pub fn devices_of_mut<'d>(
        &'d mut self,
        kind: &'d str,
    ) -> impl Iterator<Item = &'d mut Element> {
        let devices = self.child_mut("devices").into_iter();
        devices
            .flat_map(Element::children_mut)
            .filter(move |device| device.is(kind))
    }

    /// The device with this alias, of any kind. KubeVirt's prefixes (`ua-`, `ua-gpu-`) before the VMI's name are
    /// optional.
    pub fn device(&self, alias: &str) -> Option<&Element> {
        self.device_at(self.alias_position(alias)?)
    }

    /// The device with this alias, as [`Domain::device`], to edit.
    pub fn device_mut(&mut self, alias: &str) -> Option<&mut Element> {
        self.device_at_mut(self.alias_position(alias)?)
    }

    /// The disk of a VMI's volume, or the one with this target (`vda`). If the name is one disk's volume and another's
    /// target, the volume wins; so it is with the other methods for devices.
    ///
    /// ```
    /// # use hooks_sdk::Domain;
    /// let mut domain = Domain::parse("<domain><devices><disk><target dev='vda'/><alias name='ua-root'/></disk></devices></domain>")?;
    /// if let Some(disk) = domain.disk_mut("root") {
    ///     disk.ensure_child("driver").set_attr("queues", "2");
    /// }
    /// assert_eq!(domain.disk("vda").unwrap().value("driver/@queues")?.as_deref(), Some("2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn disk(&self, volume_or_target: &str) -> Option<&Element> {
        self.device_at(self.disk_position(volume_or_target)?)
    }

    /// The disk of a VMI's volume or with this target, as [`Domain::disk`], to edit.
    pub fn disk_mut(&mut self, volume_or_target: &str) -> Option<&mut Element> {
        self.device_at_mut(self.disk_position(volume_or_target)?)
    }

    /// The interface of this name in the VMI, or the one with this MAC address or this target
    /// (`tap0`).
    pub fn interface(&self, name_or_target: &str) -> Option<&Element> {
        self.device_at(self.interface_position(name_or_target)?)
    }

    /// The interface of this name, MAC address or target, as [`Domain::interface`], to edit.
    pub fn interface_mut(&mut self, name_or_target: &str) -> Option<&mut Element> {
        self.device_at_mut(self.interface_position(name_or_target)?)
    }

    /// The host device of this name in the VMI (a GPU, a host device, an SR-IOV interface), or the
    /// one with this PCI address (`0000:65:00.0`) or mediated device's UUID.
    pub fn host_device(&self, name_or_address: &str) -> Option<&Element> {
        self.device_at(self.host_device_position(name_or_address)?)
    }

    /// The host device of this name or address, as [`Domain::host_device`], to edit.
    pub fn host_device_mut(&mut self, name_or_address: &str) -> Option<&mut Element> {
        self.device_at_mut(self.host_device_position(name_or_address)?)
    }

    fn alias_position(&self, alias: &str) -> Option<usize> {
        self.position(|device| device_alias::matches(device, alias))
    }

    fn disk_position(&self, volume_or_target: &str) -> Option<usize> {
        self.position_by_name("disk", volume_or_target, |disk| {
            has(disk, "target", "dev", volume_or_target)
        })
    }

    fn interface_position(&self, name_or_target: &str) -> Option<usize> {
        self.position_by_name("interface", name_or_target, |interface| {
            has(interface, "target", "dev", name_or_target) || has_mac(interface, name_or_target)
        })
    }

    fn host_device_position(&self, name_or_address: &str) -> Option<usize> {
        self.position_by_name("hostdev", name_or_address, |device| {
            is_at(device, name_or_address)
        })
    }

    /// The index in `<devices>` of the device of a kind with this alias, or else of the one that `has_address` selects.
    fn position_by_name(
        &self,
        kind: &str,
        name: &str,
        has_address: impl Fn(&Element) -> bool,
    ) -> Option<usize> {
        self.position(|device| device.is(kind) && device_alias::matches(device, name))
            .or_else(|| self.position(|device| device.is(kind) && has_address(device)))
    }

    fn position(&self, is_it: impl Fn(&Element) -> bool) -> Option<usize> {
        self.devices()?.children().position(is_it)
    }

    fn device_at(&self, position: usize) -> Option<&Element> {
        self.devices()?.children().nth(position)
    }

    fn device_at_mut(&mut self, position: usize) -> Option<&mut Element> {
        self.child_mut("devices")?.children_mut().nth(position)
    }
}

fn has(device: &Element, child: &str, attribute: &str, expected: &str) -> bool {
    device
        .child(child)
        .and_then(|child| child.attr(attribute))
        .is_some_and(|value| value == expected)
}

fn has_mac(interface: &Element, address: &str) -> bool {
    let mac = interface.child("mac").and_then(|mac| mac.attr("address"));
    mac.is_some_and(|mac| mac.eq_ignore_ascii_case(address))
}

/// Whether a device's source is at this PCI address, or is this mediated device.
fn is_at(device: &Element, expected: &str) -> bool {
    let source = device.child("source");
    let Some(address) = source.and_then(|source| source.child("address")) else {
        return false;
    };
    if address.is_attr("uuid", expected) {
        return true;
    }
    let parts = ["domain", "bus", "slot", "function"].map(|part| number(address.attr(part)));
    matches!((parts, pci(expected)), ([Some(domain), Some(bus), Some(slot), Some(function)], Some(pci))
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
