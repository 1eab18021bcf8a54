use std::ops::{Deref, DerefMut};

use domain_xml::{Document, Element, ParseError};

/// The domain XML. What a hook does not touch reaches libvirt byte for byte.
///
/// A domain is its root element: everything that an [`Element`] can, a domain can.
#[derive(Debug, Clone)]
pub struct Domain {
    document: Document,
}

impl Domain {
    /// Reads domain XML.
    pub fn parse(xml: &str) -> Result<Domain, ParseError> {
        Ok(Domain {
            document: Document::parse(xml)?,
        })
    }

    /// The XML as it stands.
    pub fn render(&self) -> String {
        self.document.render()
    }

    /// The document, with what stands beside the root element.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// libvirt's name of the domain: `<namespace>_<name>`.
    pub fn domain_name(&self) -> String {
        self.child("name").map(Element::text).unwrap_or_default()
    }

    /// `<devices>`, added when there is none.
    pub fn devices(&mut self) -> &mut Element {
        self.ensure_child("devices")
    }

    /// The disk of a VMI's volume, or the one with this target (`vda`).
    pub fn disk(&mut self, volume_or_target: &str) -> Option<&mut Element> {
        self.device("disk", volume_or_target, "target", "dev")
    }

    /// The interface of this name in the VMI, or the one with this MAC address.
    pub fn interface(&mut self, name_or_mac: &str) -> Option<&mut Element> {
        self.device("interface", name_or_mac, "mac", "address")
    }

    /// KubeVirt names a device of the VMI by the alias `ua-<name>`.
    fn device(
        &mut self,
        kind: &str,
        name: &str,
        child: &str,
        attribute: &str,
    ) -> Option<&mut Element> {
        let has = |device: &Element, child: &str, attribute: &str, wanted: &str| {
            device
                .child(child)
                .and_then(|child| child.attr(attribute))
                .is_some_and(|value| value == wanted)
        };
        let alias = format!("ua-{name}");
        let devices = self.child_mut("devices")?;
        devices
            .children_mut()
            .filter(|device| device.is(kind))
            .find(|device| {
                has(device, "alias", "name", &alias)
                    || has(device, "alias", "name", name)
                    || has(device, child, attribute, name)
            })
    }

    /// Adds arguments to QEMU's command line, one `<qemu:arg>` each, unless these very arguments
    /// already stand there in a row. The operator must allow it.
    pub fn add_qemu_args<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        let wanted: Vec<&str> = arguments.into_iter().collect();
        let line = self.ensure_child("qemu:commandline");
        let present: Vec<String> = line
            .children_named("qemu:arg")
            .filter_map(|arg| Some(arg.attr("value")?.into_owned()))
            .collect();
        if wanted.is_empty() || present.windows(wanted.len()).any(|row| row == wanted) {
            return;
        }
        let prefix = line
            .name()
            .split_once(':')
            .map_or("qemu", |(prefix, _)| prefix)
            .to_owned();
        for value in wanted {
            line.append(Element::new(format!("{prefix}:arg")).with_attr("value", value));
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const XML: &str = "<domain type='kvm'>\n  <name>ns_vm</name>\n  <devices>\n    <disk><target dev='vda'/><alias name='ua-root'/></disk>\n    <interface><mac address='02:00:00:00:00:01'/><alias name='ua-default'/></interface>\n  </devices>\n</domain>";

    #[test]
    fn devices_are_found_by_the_names_of_the_vmi() {
        let mut domain = Domain::parse(XML).unwrap();
        assert_eq!(domain.domain_name(), "ns_vm");
        assert!(
            domain.disk("root").is_some()
                && domain.disk("vda").is_some()
                && domain.disk("ua-root").is_some()
        );
        assert!(domain.disk("vdb").is_none());
        assert!(
            domain.interface("default").is_some()
                && domain.interface("02:00:00:00:00:01").is_some()
        );
        domain
            .disk("root")
            .unwrap()
            .ensure_child("driver")
            .set_attr("queues", "2");
        assert_eq!(
            domain.render(),
            XML.replace("'ua-root'/>", "'ua-root'/><driver queues='2'/>")
        );
    }

    #[test]
    fn qemu_arguments_are_added_once() {
        let mut domain = Domain::parse(XML).unwrap();
        domain.add_qemu_args(["-device", "foo"]);
        let once = domain.render();
        domain.add_qemu_args(["-device", "foo"]);
        assert_eq!(domain.render(), once);
        assert!(
            once.contains("xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"),
            "{once}"
        );
        assert!(once.contains("  <qemu:commandline>\n    <qemu:arg value='-device'/>\n    <qemu:arg value='foo'/>\n  </qemu:commandline>\n</domain>"), "{once}");
    }
}
