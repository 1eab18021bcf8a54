//! The domain XML, edited in place.

mod device_lookup;
mod qemu_commandline;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

use domain_xml::{Document, Element, ParseError};

/// The domain XML. Parts that a hook does not change reach libvirt byte for byte.
///
/// A domain dereferences to its root element, on purpose: a hook edits the element, so all methods of [`Element`] are
/// those of a domain too. [`Domain::name`] is libvirt's name of the domain, [`Element::tag_name`] is `domain`.
///
/// ```
/// # use hooks_sdk::Domain;
/// let mut domain = Domain::parse("<domain type='kvm'>\n  <name>ns_vm</name>\n</domain>\n")?;
/// domain.set("os/smbios/@mode", "sysinfo")?;
/// assert_eq!(domain.value("/domain/os/smbios/@mode")?.as_deref(), Some("sysinfo"));
/// assert_eq!(
///     domain.render(),
///     "<domain type='kvm'>\n  <name>ns_vm</name>\n  <os>\n    <smbios mode='sysinfo'/>\n  </os>\n</domain>\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    document: Document,
}

impl Domain {
    /// Parses domain XML. A `String` is not copied.
    ///
    /// # Errors
    /// If the text is not well-formed XML, or beyond the default [`Limits`](crate::xml::Limits).
    pub fn parse(xml: impl Into<String>) -> Result<Domain, ParseError> {
        Ok(Domain {
            document: Document::parse_string(xml.into())?,
        })
    }

    /// The current XML.
    pub fn render(&self) -> String {
        self.document.render()
    }

    /// The document, with comments and processing instructions beside the root element.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// libvirt's name of the domain: `<namespace>_<name>`.
    pub fn name(&self) -> String {
        self.child("name").map(Element::text).unwrap_or_default()
    }
}

/// The current XML.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.document.fmt(f)
    }
}

impl FromStr for Domain {
    type Err = ParseError;

    fn from_str(xml: &str) -> Result<Domain, ParseError> {
        Domain::parse(xml)
    }
}

impl Deref for Domain {
    type Target = Element;

    fn deref(&self) -> &Element {
        self.document.root()
    }
}

impl DerefMut for Domain {
    fn deref_mut(&mut self) -> &mut Element {
        self.document.root_mut()
    }
}
