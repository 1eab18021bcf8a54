//! Verifies the XML of one device that is attached to the running virtual machine: a hook may not change its identity.

use std::rc::Rc;

use domain_xml::host::{Budget, Change, diff_within};
use domain_xml::{Document, Element};

use super::verify_domain::{Domain, Rejection};
use crate::policy::Grant;

/// The elements of devices that are passed to hooks.
const DEVICE_ELEMENTS: [&str; 3] = ["disk", "interface", "hostdev"];
/// The child elements that identify a device.
const IDENTITY_ELEMENTS: [&str; 4] = ["target", "alias", "mac", "source"];
/// The attributes that define how the source is used.
const IDENTITY_ATTRIBUTES: [&str; 3] = ["type", "device", "mode"];

/// A device as the only device of a domain, so that the paths of its changes and the grants for them are those of
/// OnDefineDomain.
pub struct AttachedDevice {
    domain: Domain,
}

/// Why XML is not a device, or not the same device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The text is not well-formed XML, or exceeds a limit.
    #[error("{0}")]
    Xml(String),
    /// The root element is not a disk, an interface or a host device.
    #[error("the root element is <{0}>, none of <disk>, <interface>, <hostdev>")]
    Kind(String),
    /// A part that identifies the device has changed.
    #[error(
        "/domain/devices/{path} was {before} and is {after}; which device it is is not a hook's to change"
    )]
    Identity {
        /// The part, below `/domain/devices`.
        path: String,
        /// The part before the change.
        before: String,
        /// The part after the change.
        after: String,
    },
}

impl AttachedDevice {
    /// Parses the XML of one device: a disk, an interface or a host device.
    pub fn parse(xml: &str) -> Result<Self, DeviceError> {
        let document = Domain::parse_document(xml).map_err(DeviceError::Xml)?;
        let root = document.root();
        if !DEVICE_ELEMENTS.contains(&root.tag_name()) {
            return Err(DeviceError::Kind(root.tag_name().to_owned()));
        }
        let devices = Element::new("devices").with_child(root.clone());
        let domain = Element::new("domain").with_child(devices);
        Ok(Self {
            domain: Domain::from_document(Document::new(domain)),
        })
    }

    /// The domain that contains only the device.
    #[must_use]
    pub fn as_domain(&self) -> &Document {
        self.domain.as_document()
    }

    /// Checks that `after` is the same device. The error names the part that differs.
    pub fn same_identity(&self, after: &Self) -> Result<(), DeviceError> {
        self.check_identity_within(after, &Budget::unlimited())
    }

    /// Parses a hook's device, checks it against the grant and returns it with the changes.
    pub(super) fn verify(
        &self,
        xml: &str,
        grant: &Grant,
        budget: &Rc<Budget<'static>>,
    ) -> Result<(Self, Vec<Change>), Rejection> {
        budget.spend_text(xml.len());
        if xml.trim().is_empty() {
            return Err(Rejection::Invalid("an empty device XML".to_owned()));
        }
        let invalid = |error: DeviceError| Rejection::Invalid(error.to_string());
        let after = Self::parse(xml).map_err(invalid)?;
        self.check_identity_within(&after, budget)
            .map_err(invalid)?;
        let grant = grant.for_attached_device();
        let changes = self.domain.verify_parsed(&after.domain, &grant, budget)?;
        Ok((after, changes))
    }

    /// The device's element; `Some` for every device that was parsed.
    fn element(&self) -> Option<&Element> {
        let devices = self.domain.root().child("devices")?;
        devices.children().next()
    }

    fn check_identity_within(&self, after: &Self, budget: &Budget<'_>) -> Result<(), DeviceError> {
        let (Some(before), Some(after)) = (self.element(), after.element()) else {
            return Err(DeviceError::Xml("there is no device".to_owned()));
        };
        let kind = before.tag_name();
        let identity_error = |path: &str, before: &str, after: &str| {
            Err(DeviceError::Identity {
                path: path.to_owned(),
                before: before.to_owned(),
                after: after.to_owned(),
            })
        };
        if kind != after.tag_name() {
            return identity_error(
                kind,
                &format!("<{kind}>"),
                &format!("<{}>", after.tag_name()),
            );
        }
        for name in IDENTITY_ATTRIBUTES {
            let value = |element: &Element| match element.attr(name) {
                Some(value) => format!("{value:?}"),
                None => "not there".to_owned(),
            };
            let (before, after) = (value(before), value(after));
            if before != after {
                return identity_error(&format!("{kind}/@{name}"), &before, &after);
            }
        }
        for name in IDENTITY_ELEMENTS {
            let children = |element: &Element| -> Vec<Element> {
                element.children_named(name).cloned().collect()
            };
            let (before, after) = (children(before), children(after));
            let is_same = before.len() == after.len()
                && before.iter().zip(&after).all(|(before, after)| {
                    let document = |element: &Element| Document::new(element.clone());
                    diff_within(&document(before), &document(after), budget).is_empty()
                });
            if !is_same {
                let text = |elements: &[Element]| match elements {
                    [] => "not there".to_owned(),
                    elements => elements.iter().map(Element::render).collect(),
                };
                return identity_error(&format!("{kind}/{name}"), &text(&before), &text(&after));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
