//! Device aliases. libvirt accepts aliases chosen by the caller only with the prefix `ua-`.

use domain_xml::Element;
use kubevirt_api::typed_xml::{JsonField, ParseError, ReadChild, WriteChild, XmlWriter};
use serde::Serialize;

/// The prefix of aliases that the launcher chooses.
pub(crate) const USER_PREFIX: &str = "ua-";

/// The prefix of aliases of SR-IOV interfaces, before the interface's name.
pub(crate) const SRIOV_ALIAS: &str = "sriov-";

/// The alias of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Alias {
    /// The name without the prefix `ua-`.
    pub name: String,
    /// Whether the launcher chose the name, and not libvirt.
    pub user_defined: bool,
}

impl Alias {
    /// The name in the XML's alias of a device, without the prefix `ua-`.
    pub fn name_in(alias: &str) -> &str {
        alias.strip_prefix(USER_PREFIX).unwrap_or(alias)
    }

    /// An alias that the launcher chooses (`ua-NAME` in the XML).
    pub fn user(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            user_defined: true,
        }
    }

    /// An alias that libvirt has chosen.
    pub fn libvirt(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            user_defined: false,
        }
    }
}

impl WriteChild for Alias {
    fn write_child(&self, name: &str, _omit_empty: bool, writer: &mut XmlWriter) {
        writer.start(name);
        if self.user_defined {
            writer.attr("name", &format!("{USER_PREFIX}{}", self.name));
        } else {
            writer.attr("name", &self.name);
        }
        writer.end(name);
    }
}

impl ReadChild for Alias {
    fn read_child(&mut self, element: &Element) -> Result<(), ParseError> {
        let name = element.attr("name").unwrap_or_default();
        *self = match name.strip_prefix(USER_PREFIX) {
            Some(name) => Self::user(name),
            None => Self::libvirt(name),
        };
        Ok(())
    }
}

impl JsonField for Alias {}
