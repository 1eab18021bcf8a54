//! A domain from XML text.

use domain_xml::Document;

use crate::spec::DomainSpec;
pub use crate::xml::ParseError;
use crate::xml::{ReadNode, local_name};

/// Reads a domain as libvirt prints it. What [`DomainSpec`] has no place for is ignored.
///
/// # Errors
/// [`ParseError`] when the text is no XML, its root is not `<domain>`, or a number is none.
pub fn parse(xml: &str) -> Result<DomainSpec, ParseError> {
    let document = Document::parse(xml)?;
    let root = document.root();
    if local_name(root) != "domain" {
        return Err(ParseError::Root {
            found: root.name().to_owned(),
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
    fn errors_name_element_and_value() {
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
    fn the_namespace_of_qemu_is_not_the_domains() {
        let spec = parse("<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'/>");
        assert!(spec.is_ok_and(|spec| spec.xmlns_qemu.is_empty()));
    }
}
