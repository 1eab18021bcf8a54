//! The keys that identify an element among its siblings, from libvirt's domain format.
//!
//! An element has alternative keys, the best one first: a disk is identified by its target, and by its alias if a
//! hook changed the target.

use std::borrow::Cow;

use crate::Element;

/// The parts of a key: `@name` or `child/@name`.
pub(crate) type Parts = &'static [&'static str];

/// The values of a key's parts. No key has more than two.
pub(crate) type Values<'a> = [Option<Cow<'a, str>>; 2];

/// The keys of the elements of one name.
pub(super) struct Kind {
    /// Alternative keys, the best one first.
    pub(super) alternatives: &'static [Parts],
    /// Whether an only child needs no key: it is paired even if its key changes, and its path has no predicate.
    pub(super) only_child_is_itself: bool,
}

/// Longer values do not identify an element, since they would make paths unreadable.
const MAX_VALUE: usize = 128;

const ALIAS: Parts = &["alias/@name"];

/// The keys of elements with this canonical name.
pub(super) fn kind(name: &str) -> Kind {
    let alternatives: &'static [Parts] = match name {
        "disk" => &[&["target/@dev"], ALIAS],
        "interface" => &[ALIAS, &["mac/@address"], &["target/@dev"]],
        "controller" => &[&["@type", "@index"], ALIAS],
        "filesystem" => &[&["target/@dir"], ALIAS],
        "channel" => &[&["target/@name"], ALIAS],
        "serial" | "console" | "parallel" => {
            &[&["target/@type", "target/@port"], &["target/@port"], ALIAS]
        }
        "graphics" | "listen" | "sysinfo" => &[&["@type"]],
        "input" => &[ALIAS, &["@type", "@bus"]],
        // A device that is attached has the same path alone and among other devices.
        "hostdev" => &[ALIAS],
        "shmem" => &[&["@name"], ALIAS],
        "entry" | "timer" | "feature" | "parameter" | "option" | "qemu:property" => &[&["@name"]],
        "vcpu" | "cell" | "iothread" | "sibling" => &[&["@id"]],
        "boot" => &[&["@dev"]],
        "vcpupin" => &[&["@vcpu"]],
        "iothreadpin" => &[&["@iothread"]],
        "memnode" => &[&["@cellid"]],
        "page" => &[&["@size", "@nodeset"], &["@size"]],
        "host" => &[&["@name", "@port"], &["@name"]],
        "qemu:arg" => &[&["@value"]],
        "qemu:env" => &[&["@name"]],
        "qemu:device" => &[&["@alias"]],
        _ => {
            let alternatives: &'static [Parts] = &[ALIAS, &["@name"], &["@id"]];
            return Kind {
                alternatives,
                only_child_is_itself: true,
            };
        }
    };
    Kind {
        alternatives,
        only_child_is_itself: false,
    }
}

impl Kind {
    /// The parts of an alternative, if there is one of this number.
    pub(super) fn parts(&self, alternative: usize) -> Option<Parts> {
        self.alternatives.get(alternative).copied()
    }
}

/// The values of all parts, if the element has each exactly once.
pub(super) fn values<'a>(element: &'a Element, parts: Parts) -> Option<Values<'a>> {
    let mut values = Values::default();
    for (part, place) in parts.iter().zip(&mut values) {
        *place = Some(value(element, part)?);
    }
    Some(values)
}

/// Whether the element has a part several times; a predicate holds for each of them.
pub(super) fn has_repeated_part(element: &Element, parts: Parts) -> bool {
    let names = parts.iter().filter_map(|part| part.split_once("/@"));
    let mut counts = names.map(|(name, _)| element.children_named(name).take(2).count());
    counts.any(|count| count > 1)
}

fn value<'a>(element: &'a Element, part: &'static str) -> Option<Cow<'a, str>> {
    let (child, attribute) = part.split_once('@')?;
    let owner = match child.strip_suffix('/') {
        None => element,
        Some(name) => {
            let mut found = element.children_named(name);
            let first = found.next()?;
            if found.next().is_some() {
                return None;
            }
            first
        }
    };
    owner.attr(attribute).filter(|value| identifies(value))
}

/// Whether a value can stand in a predicate of a readable path.
fn identifies(value: &str) -> bool {
    let quotable = !(value.contains('\'') && value.contains('"'));
    value.len() <= MAX_VALUE && quotable && !value.contains(char::is_control)
}
