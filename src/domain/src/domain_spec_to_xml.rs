//! Renders a domain as XML text.

use kubevirt_api::typed_xml::{WriteElement, XmlWriter};

use crate::libvirt_spec::DomainSpec;

/// Renders the domain as Go's encoder does, indented with tabs, without an XML declaration.
pub fn render(spec: &DomainSpec) -> String {
    let mut writer = XmlWriter::new();
    spec.write("domain", &mut writer);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain_spec_from_xml::parse;

    #[test]
    fn special_characters_survive_rendering_and_parsing() {
        let mut spec = DomainSpec {
            name: "<a> & \"b\" 'c'\t\r\n é".into(),
            ..DomainSpec::default()
        };
        spec.os.kernel_args = "  console=ttyS0 ]]> ".into();
        assert_eq!(parse(&render(&spec)).unwrap(), spec);
        spec.name = "a\u{1}b".into();
        assert_eq!(parse(&render(&spec)).unwrap().name, "a\u{fffd}b");
    }

    #[test]
    fn elements_are_indented_with_tabs() {
        let spec = DomainSpec {
            kind: "kvm".into(),
            name: "vm".into(),
            ..DomainSpec::default()
        };
        assert!(render(&spec).starts_with(
            "<domain type=\"kvm\">\n\t<name>vm</name>\n\t<memory unit=\"\">0</memory>\n"
        ));
        assert!(render(&spec).ends_with("\n\t<cpu></cpu>\n</domain>"));
    }
}
