//! One device that is attached to the running virtual machine, edited in place.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

use domain_xml::{Document, Element, ParseError};

use crate::device_alias;

/// The XML of a device that is about to be attached. Parts that a hook does not change reach libvirt byte for byte.
///
/// A device dereferences to its element, `<disk>`, `<interface>` or `<hostdev>`, on purpose: all methods of [`Element`]
/// are available, and what a hook does to the element of a device of its [`Domain`](crate::Domain) it can do to this
/// one.
///
/// ```
/// # use hooks_sdk::Device;
/// let mut device = Device::parse("<disk type='file'><target dev='sda'/><alias name='ua-data'/></disk>")?;
/// if device.is("disk") && device.vmi_name().as_deref() == Some("data") {
///     device.ensure_child("driver").set_attr("cache", "none");
/// }
/// assert!(device.render().ends_with("<driver cache='none'/></disk>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    document: Document,
}

impl Device {
    /// Parses the XML of one device. A `String` is not copied.
    ///
    /// # Errors
    /// If the text is not well-formed XML, or beyond the default [`Limits`](crate::xml::Limits).
    pub fn parse(xml: impl Into<String>) -> Result<Device, ParseError> {
        Ok(Device {
            document: Document::parse_string(xml.into())?,
        })
    }

    /// The current XML.
    pub fn render(&self) -> String {
        self.document.render()
    }

    /// The name of the volume, interface or host device in the VMI: the alias without KubeVirt's prefix `ua-`, and of a
    /// `<hostdev>` without the second one (`gpu-`, `hostdevice-`, `sriov-`, `usb-host-`, `dra-gpu-`,
    /// `dra-hostdevice-`). `None` without an alias.
    pub fn vmi_name(&self) -> Option<String> {
        device_alias::vmi_name(self)
    }
}

/// The current XML.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.document.fmt(f)
    }
}

impl FromStr for Device {
    type Err = ParseError;

    fn from_str(xml: &str) -> Result<Device, ParseError> {
        Device::parse(xml)
    }
}

impl Deref for Device {
    type Target = Element;

    fn deref(&self) -> &Element {
        self.document.root()
    }
}

impl DerefMut for Device {
    fn deref_mut(&mut self) -> &mut Element {
        self.document.root_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each task of docs/sdk.md for "the domain, or a device".
    #[test]
    fn a_device_is_edited_as_a_domain_is() {
        let mut device =
            Device::parse("<hostdev><source><product id='1'/></source></hostdev>").unwrap();
        assert!(device.find("source/product").unwrap().is_some());
        assert_eq!(device.find_all("source/*").unwrap().len(), 1);
        assert_eq!(
            device.value("source/product/@id").unwrap().as_deref(),
            Some("1")
        );
        device.set("@managed", "no").unwrap();
        assert!(!device.set_if_absent("@managed", "yes").unwrap());
        device.ensure("alias").unwrap().set_attr("name", "ua-a");
        device
            .insert("source", Element::parse("<vendor id='2'/>").unwrap())
            .unwrap();
        let address = || Element::new("address");
        assert!(device.insert_if_absent("source/address", address).unwrap());
        assert!(!device.insert_if_absent("source/address", address).unwrap());
        assert_eq!(device.remove("source/product").unwrap(), 1);
        assert_eq!(
            device.render(),
            "<hostdev managed='no'><source><vendor id='2'/><address/></source><alias name='ua-a'/></hostdev>"
        );
    }

    #[test]
    fn devices_are_equal_if_their_texts_are() {
        let xml = "<disk><target dev='sda'/></disk>";
        let device: Device = xml.parse().unwrap();
        let mut edited = Device::parse("<disk><target dev='sdb'/></disk>").unwrap();
        assert_ne!(device, edited);
        edited.set("target/@dev", "sda").unwrap();
        assert_eq!(device, edited);
        assert_eq!(device.to_string(), xml);
        assert!("<disk>".parse::<Device>().is_err());
    }
}
