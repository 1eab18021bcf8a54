//! Counts the free root ports of a domain that libvirt has given addresses.

use std::collections::HashSet;

use domain_xml::{Document, Element};

use crate::hotplug_ports::error::HotplugPortsError;
use crate::hotplug_ports::pci_address::PciAddress;

const ROOT_PORT: &str = "pcie-root-port";

/// The number of PCIe root ports to which no device is connected, in libvirt's XML of a domain.
///
/// # Errors
/// [`HotplugPortsError::Xml`] if the XML is not well-formed.
pub fn free_root_ports(defined: &str) -> Result<usize, HotplugPortsError> {
    let domain = Document::parse(defined)?;
    let devices = || {
        let devices = domain.root().child("devices");
        devices.into_iter().flat_map(Element::children)
    };
    let used: HashSet<u32> = devices()
        .filter_map(PciAddress::from_device)
        .map(|address| address.bus())
        .collect();
    let ports = devices().filter_map(root_port_index);
    Ok(ports.filter(|index| !used.contains(index)).count())
}

/// The index of a root port, which is the number of the bus behind the port; `None` for other devices.
pub(crate) fn root_port_index(device: &Element) -> Option<u32> {
    let is_port = device.is("controller") && device.attr("model").as_deref() == Some(ROOT_PORT);
    is_port.then(|| device.attr("index")?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_without_a_device_are_free() {
        let port = |index: u32| {
            format!(
                "<controller type='pci' index='{index}' model='pcie-root-port'>\
                 <address type='pci' bus='0x00' slot='0x02' function='0x{index}'/></controller>"
            )
        };
        let domain = |devices: &str| {
            let ports: String = (1..=3).map(port).collect();
            format!("<domain><devices>{ports}{devices}</devices></domain>")
        };
        let disk = "<disk><address type='pci' bus='0x02' slot='0x00'/></disk>";
        let drive = "<disk><address type='drive' bus='3' unit='0'/></disk>";
        let bridge = "<controller type='pci' index='9' model='pcie-to-pci-bridge'>\
            <address type='pci' bus='0x01' slot='0x00'/></controller>";
        for (devices, free) in [
            (String::new(), 3),
            (disk.to_owned(), 2),
            (drive.to_owned(), 3),
            (format!("{disk}{bridge}{disk}"), 1),
        ] {
            assert_eq!(
                free_root_ports(&domain(&devices)).unwrap(),
                free,
                "{devices}"
            );
        }
        assert_eq!(free_root_ports("<domain/>").unwrap(), 0);
        assert!(free_root_ports("<domain>").is_err());
    }
}
