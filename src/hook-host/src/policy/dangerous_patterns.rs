//! The kinds of the dangerous set that a path pattern names.

use domain_xml::{Document, PathPattern};

use super::pattern_subset::steps;
use super::permission::{Checker, DangerKind, depends_on_attribute};

/// Whether a pattern names a node of the dangerous set. Only `dangerous` of the operator's policy grants such a
/// node, or its dangerous values. A wildcard names no node.
pub fn names_dangerous(pattern: &PathPattern) -> bool {
    !kinds_named(pattern, true).is_empty()
}

/// The kinds of the dangerous set to which only some values of the named node belong; empty if every value is
/// dangerous. `paths` of the operator's policy grants the other values.
pub fn dangerous_values(pattern: &PathPattern) -> Vec<DangerKind> {
    match kinds_named(pattern, false).is_empty() {
        true => kinds_named(pattern, true),
        false => Vec::new(),
    }
}

/// The kinds of the dangerous set that a pattern names, evaluated on a domain that contains only the named nodes;
/// with `any_value`, also the kinds to which only some values belong. A wildcard names no node.
pub(super) fn kinds_named(pattern: &PathPattern, any_value: bool) -> Vec<DangerKind> {
    // A name that is not valid XML selects nothing in a domain.
    let Ok(domain) = Document::parse(&sample_domain(pattern)) else {
        return Vec::new();
    };
    Checker::new(&[], &domain, &domain).kinds_of_names(any_value)
}

/// A domain with the elements and the attribute that a pattern names; `any` stands for wildcards. Of the attributes that
/// predicates require, it has those that decide whether an element is dangerous.
fn sample_domain(pattern: &PathPattern) -> String {
    let steps = steps(pattern.as_str());
    let mut xml = format!("<domain {NAMESPACES}>");
    let mut end_tags = Vec::new();
    let mut element = "domain".to_owned();
    for step in steps.iter().skip(1) {
        match step.name.strip_prefix('@') {
            Some("*") => {}
            // Of such an attribute some values are dangerous, in the element.
            Some(attribute) if depends_on_attribute(&element, attribute) => {}
            Some(attribute) => {
                xml.truncate(xml.len().saturating_sub(1));
                xml.push_str(&format!(" {attribute}='x'>"));
            }
            None if step.name == "**" => {}
            None => {
                let name = step.name.replace('*', "any");
                xml.push_str(&format!("<{name}"));
                for (attribute, value) in step.required_attributes() {
                    let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric());
                    if is_plain && depends_on_attribute(&name, attribute) {
                        xml.push_str(&format!(" {attribute}='{value}'"));
                    }
                }
                xml.push('>');
                end_tags.push(format!("</{name}>"));
                element = name;
            }
        }
    }
    end_tags.reverse();
    format!("{xml}{}</domain>", end_tags.concat())
}

const NAMESPACES: &str = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' \
    xmlns:lxc='http://libvirt.org/schemas/domain/lxc/1.0' \
    xmlns:xen='http://libvirt.org/schemas/domain/xen/1.0' \
    xmlns:bhyve='http://libvirt.org/schemas/domain/bhyve/1.0'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_name_dangerous_nodes_are_recognised() {
        for (pattern, expected) in [
            ("/domain/qemu:commandline/**", true),
            ("/domain/devices/disk[target/@dev='vda']/source/@file", true),
            ("/domain/devices/*/source/@dev", true),
            ("/domain/os/kernel", true),
            ("/domain/devices/emulator", true),
            ("/domain/devices/**", false),
            ("/domain/**", false),
            ("/domain/@*", false),
            ("/domain/@type", false),
            ("/domain/sysinfo/**", false),
            ("/domain/sysinfo[@type='smbios']/**", false),
            ("/domain/sysinfo/baseBoard/**", false),
            ("/domain/sysinfo[@type='fwcfg']/**", true),
            ("/domain/sysinfo[@type=\"fwcfg\"]/entry", true),
            ("/domain/sysinfo/@type", false),
            ("/domain/sysinfo/oemStrings/**", true),
            ("/domain/launchSecurity/policy", true),
            ("/domain/os/@firmware", true),
            ("/domain/os/smbios/@mode", false),
        ] {
            let parsed = PathPattern::parse(pattern).unwrap();
            assert_eq!(
                !kinds_named(&parsed, false).is_empty(),
                expected,
                "{pattern}"
            );
        }
        for (pattern, kinds) in [
            (
                "/domain/devices/graphics/@keymap",
                vec![DangerKind::HostPath],
            ),
            ("/domain/devices/disk/@type", vec![DangerKind::Source]),
            ("/domain/devices/disk/@bus", vec![]),
            ("/domain/sysinfo/**", vec![DangerKind::GuestProvisioning]),
            ("/domain/os/boot/@dev", vec![DangerKind::Boot]),
        ] {
            let parsed = PathPattern::parse(pattern).unwrap();
            assert_eq!(dangerous_values(&parsed), kinds, "{pattern}");
            assert_eq!(kinds_named(&parsed, true), kinds, "{pattern}");
            assert_eq!(kinds_named(&parsed, false), [], "{pattern}");
        }
    }
}
