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
