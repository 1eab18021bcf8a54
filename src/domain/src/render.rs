//! A domain as XML text.

use crate::spec::DomainSpec;
use crate::xml::{WriteNode, Writer};

/// Renders the domain, indented with tabs, without an XML declaration.
pub fn render(spec: &DomainSpec) -> String {
    let mut writer = Writer::new();
    spec.write("domain", &mut writer);
    writer.finish()
}
