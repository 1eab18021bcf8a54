//! Parses a domain from XML text.

use domain_xml::Document;

use crate::libvirt_spec::DomainSpec;

pub use kubevirt_api::typed_xml::ParseError;
use kubevirt_api::typed_xml::{ReadElement, local_name};

/// Parses a domain from libvirt's XML. Elements that [`DomainSpec`] does not have are ignored.
///
/// # Errors
/// [`ParseError`] if the text is not well-formed, its root is not `<domain>`, or a number is invalid.
pub fn parse(xml: &str) -> Result<DomainSpec, ParseError> {
    let document = Document::parse(xml)?;
    let root = document.root();
    if local_name(root) != "domain" {
        return Err(ParseError::Root {
            found: root.tag_name().to_owned(),
            expected: "domain",
        });
    }
    let mut spec = DomainSpec::default();
    spec.read(root)?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_element_and_value_and_unknown_elements_are_ignored() {
        let error = |xml: &str| parse(xml).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(
            error("<network/>"),
            Err("the root element is <network>, expected <domain>".into())
        );
        assert_eq!(
            error("<domain><memory unit='KiB'>lots</memory></domain>"),
            Err("<memory>: text is \"lots\", which is not a valid u64".into())
        );
        assert_eq!(
            error("<domain><new thing='1'/><vcpu> 2 </vcpu></domain>"),
            Ok(())
        );
        assert!(error("<domain>").is_err());
    }

    #[test]
    fn qemu_namespace_declaration_is_ignored() {
        let spec = parse("<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'/>");
        assert!(spec.is_ok_and(|spec| spec.xmlns_qemu.is_empty()));
    }
}
