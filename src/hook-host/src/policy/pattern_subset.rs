//! Compares path patterns by their texts: subset, and reference to the dangerous set.

use domain_xml::{Document, PathPattern};

use super::permission::{Checker, DangerKind};

/// One step of a pattern: its name test and its predicates as they are written.
#[derive(PartialEq)]
pub(super) struct Step<'a> {
    pub(super) name: &'a str,
    pub(super) predicates: Vec<String>,
}

/// Whether `wide` selects everything that `narrow` can select. Never wrongly true; false if the
/// texts do not show it.
pub(super) fn is_superset(wide: &PathPattern, narrow: &PathPattern) -> bool {
    let (wide, narrow) = (steps(wide.as_str()), steps(narrow.as_str()));
    // reach[j]: the steps of `wide` so far can select what the first j of `narrow` do.
    let mut reach = vec![false; narrow.len() + 1];
    reach[0] = true;
    for step in &wide {
        let mut next = vec![false; narrow.len() + 1];
        let descends = step.name == "**";
        next[0] = descends && reach[0];
        for (index, other) in narrow.iter().enumerate() {
            next[index + 1] = if descends {
                reach[index + 1] || next[index]
            } else {
                reach[index] && step.is_superset(other)
            };
        }
        reach = next;
    }
    reach[narrow.len()]
}

/// Whether a pattern names a member of the dangerous set, so that only `dangerous` of the operator's policy grants it, or
/// some values of it. A wildcard names nothing.
pub fn names_dangerous(pattern: &PathPattern) -> bool {
    !kinds_named(pattern, true).is_empty()
}

/// The classes of the dangerous set that some values of what a pattern names are of; empty if its other values are
/// dangerous too. `paths` of the operator's policy grants the other values.
pub fn dangerous_values(pattern: &PathPattern) -> Vec<DangerKind> {
    match kinds_named(pattern, false).is_empty() {
        true => kinds_named(pattern, true),
        false => Vec::new(),
    }
}

/// The classes of the dangerous set that a pattern names, evaluated on a domain that contains only what the pattern
/// names; with `any_value`, also those where only some values are dangerous. A wildcard names nothing.
pub(super) fn kinds_named(pattern: &PathPattern, any_value: bool) -> Vec<DangerKind> {
    // A name that is not valid XML selects nothing in a domain.
    let Ok(sample) = Document::parse(&sample(pattern)) else {
        return Vec::new();
    };
    Checker::new(&[], &sample, &sample).kinds_of_names(any_value)
}

/// A domain with the elements and the attribute that a pattern names; `any` stands for wildcards.
fn sample(pattern: &PathPattern) -> String {
    let names: Vec<&str> = names(pattern.as_str());
    let mut xml = format!("<domain {NAMESPACES}>");
    let mut ends = Vec::new();
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
                ends.push(format!("</{name}>"));
            }
        }
    }
    ends.reverse();
    format!("{xml}{}</domain>", ends.concat())
}

const NAMESPACES: &str = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' \
    xmlns:lxc='http://libvirt.org/schemas/domain/lxc/1.0' \
    xmlns:xen='http://libvirt.org/schemas/domain/xen/1.0' \
    xmlns:bhyve='http://libvirt.org/schemas/domain/bhyve/1.0'";

/// The names of a pattern's steps, predicates left out.
pub(super) fn names(pattern: &str) -> Vec<&str> {
    steps(pattern).into_iter().map(|step| step.name).collect()
}

impl Step<'_> {
    fn is_superset(&self, narrow: &Self) -> bool {
        let named = match (self.name, narrow.name) {
            (_, "**") => false,
            ("*", name) => !name.starts_with('@'),
            ("@*", name) => name.starts_with('@'),
            (wide, name) => match wide.strip_suffix(":*") {
                Some(prefix) => name
                    .strip_prefix(prefix)
                    .is_some_and(|n| n.starts_with(':')),
                None => wide == name,
            },
        };
        named
            && self
                .predicates
                .iter()
                .all(|p| narrow.predicates.contains(p))
    }
}

pub(super) fn steps(pattern: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = pattern.trim_start_matches('/');
    while !rest.is_empty() {
        let (step, after) = split(rest, '/');
        steps.push(self::step(step));
        rest = after;
    }
    steps
}

fn step(text: &str) -> Step<'_> {
    let (name, mut rest) = text.split_at(text.find('[').unwrap_or(text.len()));
    let mut predicates = Vec::new();
    while !rest.is_empty() {
        let (predicate, after) = split(rest, ']');
        predicates.push(predicate.replace('"', "'"));
        rest = after;
    }
    Step {
        name: name.trim(),
        predicates,
    }
}

/// Splits at the first `end` outside of quotes, and for `/` also outside of predicates.
fn split(text: &str, end: char) -> (&str, &str) {
    let (mut quote, mut depth) = (None, 0_usize);
    for (index, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == end && (end == ']' || depth == 0) => {
                return (&text[..index], &text[index + 1..]);
            }
            None => match c {
                '\'' | '"' => quote = Some(c),
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            },
        }
    }
    (text, "")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn covered(wide: &str, narrow: &str) -> bool {
        is_superset(
            &PathPattern::parse(wide).unwrap(),
            &PathPattern::parse(narrow).unwrap(),
        )
    }

    #[test]
    fn subsets_are_recognised_from_the_texts() {
        for (wide, narrow, is) in [
            ("/domain/sysinfo/**", "/domain/sysinfo", true),
            ("/domain/sysinfo/**", "/domain/sysinfo/bios/@x", true),
            ("/domain/sysinfo/**", "/domain/sysinfo/**", true),
            ("/domain/**", "/domain/devices/**", true),
            ("/domain/devices/**", "/domain/**", false),
            ("/domain/*", "/domain/a", true),
            ("/domain/*", "/domain/@a", false),
            ("/domain/@*", "/domain/@a", true),
            ("/domain/*", "/domain/a/b", false),
            ("/domain/a", "/domain/*", false),
            (
                "/domain/**/@queues",
                "/domain/devices/disk/driver/@queues",
                true,
            ),
            ("/domain/a/b", "/domain/a[@x='/b]/']/b", true),
            ("/domain/a[@x='1']/b", "/domain/a/b", false),
            ("/domain/a[@x='1']/b", "/domain/a[@x=\"1\"][@y]/b", true),
            ("/domain/qemu:*", "/domain/qemu:commandline", true),
            ("/domain/qemu:*", "/domain/qemux", false),
        ] {
            assert_eq!(covered(wide, narrow), is, "{wide} {narrow}");
        }
    }

    #[test]
    fn patterns_that_name_dangerous_nodes_are_recognised() {
        for (pattern, is) in [
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
            assert_eq!(!kinds_named(&parsed, false).is_empty(), is, "{pattern}");
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

    proptest::proptest! {
        #[test]
        fn the_subset_relation_is_reflexive_and_transitive(
            a in pattern(), b in pattern(), c in pattern()
        ) {
            proptest::prop_assert!(covered(&a, &a));
            if covered(&a, &b) && covered(&b, &c) {
                proptest::prop_assert!(covered(&a, &c), "{} {} {}", a, b, c);
            }
        }
    }

    fn pattern() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::strategy::Strategy;
        proptest::collection::vec("[ab]|\\*|\\*\\*|a\\[@x='1'\\]", 1..4)
            .prop_map(|steps| format!("/domain/{}", steps.join("/")))
    }
}
