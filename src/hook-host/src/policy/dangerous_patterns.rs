//! The kinds of the dangerous set that a path pattern names.

use domain_xml::{Document, PathPattern};

use super::pattern_subset::step_names;
use super::permission::{Checker, DangerKind};

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

/// A domain with the elements and the attribute that a pattern names; `any` stands for wildcards.
fn sample_domain(pattern: &PathPattern) -> String {
    let names: Vec<&str> = step_names(pattern.as_str());
    let mut xml = format!("<domain {NAMESPACES}>");
    let mut end_tags = Vec::new();
    for name in names.iter().skip(1) {
        match name.strip_prefix('@') {
            Some("*") => {}
            Some(attribute) => {
                xml.truncate(xml.len().saturating_sub(1));
                xml.push_str(&format!(" {attribute}='x'>"));
            }
            None if *name == "**" => {}
            None => {
                let name = name.replace('*', "any");
                xml.push_str(&format!("<{name}>"));
                end_tags.push(format!("</{name}>"));
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
#[allow(clippy::unwrap_used)]
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
        ] {
            let parsed = PathPattern::parse(pattern).unwrap();
            assert_eq!(dangerous_values(&parsed), kinds, "{pattern}");
            assert_eq!(kinds_named(&parsed, true), kinds, "{pattern}");
            assert_eq!(kinds_named(&parsed, false), [], "{pattern}");
        }
    }
}
