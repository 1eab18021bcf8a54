//! The dangerous set, which no wildcard matches.
//!
//! QEMU and libvirt open the files, run the programs and take the devices that these elements and
//! attributes name, with the rights of the launcher's container. Names are compared without their
//! prefixes: libvirt ignores the namespaces of attributes (as libxml2's `xmlGetProp` does), and the
//! same rule is applied to elements.
//!
//! `element_rules` and `attribute_rules` are the rules: where, for which values, and in which kind.
//! `reviewed_schema_names.txt` lists all other names of libvirt's schema, and a test compares both
//! with the schema.

mod attribute_rules;
mod danger_kind;
mod dangerous_defaults;
mod dangerous_values;
mod element_rules;
mod network_boot;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use domain_xml::Element;

use attribute_rules::ATTRIBUTE_RULES;
use element_rules::ELEMENT_RULES;
use rule::{Rule, When};

pub use danger_kind::{DangerKind, UnknownDanger};
pub(super) use dangerous_defaults::{dangerous_defaults, new_dangerous_defaults};
pub(super) use network_boot::{boots_from_network_earlier, is_boot_of_disk_or_os};

/// The version of libvirt whose schema the rules were reviewed against.
pub const REVIEWED_LIBVIRT: (u32, u32, u32) = (11, 3, 0);

/// A warning if the libvirt of this version is newer than [`REVIEWED_LIBVIRT`]. The version is encoded as by libvirt:
/// 11003000 for 11.3.0. Patch releases add no elements.
#[must_use]
pub fn unreviewed_libvirt(packed: u64) -> Option<String> {
    let (major, minor) = (packed / 1_000_000, packed / 1_000 % 1_000);
    let (reviewed_major, reviewed_minor, _) = REVIEWED_LIBVIRT;
    let is_newer = (major, minor) > (u64::from(reviewed_major), u64::from(reviewed_minor));
    is_newer.then(|| {
        format!(
            "libvirt {major}.{minor} is newer than {reviewed_major}.{reviewed_minor}, whose schema the \
             dangerous set was reviewed for: it may have elements that hooks should not change without the operator's word"
        )
    })
}

/// In which of the two documents a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLocation {
    /// Only in the document before; its parent may be removed too.
    Before,
    /// Only in the document before; its parent is in both documents.
    Removed,
    /// Only in the document after.
    After,
    /// In both documents; the node of the document after is checked.
    Edited,
    /// In a pattern, which matches every value.
    InPattern,
}

impl NodeLocation {
    /// The location of the ancestors of a changed node: a new node is in elements of both documents.
    pub(super) fn of_parent(self) -> Self {
        match self {
            Self::After => Self::Edited,
            other => other,
        }
    }
}

const HYPERVISORS: &[&str] = &["qemu", "lxc", "xen", "bhyve"];

/// The prefix and the local name: `("qemu", "arg")` for `qemu:arg`. The prefix is empty if the name has none.
fn split_prefix(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

/// The name without its prefix: `arg` for `qemu:arg`.
pub(crate) fn local(name: &str) -> &str {
    split_prefix(name).1
}

/// The rules by `(true, ATTRIBUTE)`, or by `(false, ELEMENT)` for rules about elements.
static RULES_BY_NAME: LazyLock<HashMap<(bool, &str), Vec<&Rule>>> = LazyLock::new(|| {
    let mut index: HashMap<_, Vec<&Rule>> = HashMap::new();
    for rule in ELEMENT_RULES.iter().chain(ATTRIBUTE_RULES) {
        let name = rule.attribute.or(rule.element).unwrap_or_default();
        let key = (rule.attribute.is_some(), name);
        index.entry(key).or_default().push(rule);
    }
    index
});

/// The rules for a node, by the names of its parent, its element and its attribute.
fn rules_for<'a>(
    parent: &'a str,
    element: &'a str,
    attribute: Option<&'a str>,
) -> impl Iterator<Item = &'static Rule> + 'a {
    let key = (attribute.is_some(), attribute.unwrap_or(element));
    let named = RULES_BY_NAME.get(&key).into_iter().flatten().copied();
    named.filter(move |rule| {
        rule.element.is_none_or(|name| name == element)
            && rule.parent.is_none_or(|name| name == parent)
    })
}

impl Rule {
    fn applies(&self, location: NodeLocation, value: impl FnOnce() -> String) -> bool {
        match (self.when, location) {
            (When::Always, _)
            | (_, NodeLocation::InPattern)
            | (When::Removed, NodeLocation::Removed)
            | (When::Added, NodeLocation::After) => true,
            (When::AddedOrChangedTo(is_dangerous), NodeLocation::After | NodeLocation::Edited)
            | (When::ChangedTo(is_dangerous), NodeLocation::Edited) => is_dangerous(&value()),
            // Of `With`, the value is that of the other attribute.
            (When::With(_, is_dangerous), _) => is_dangerous(&value()),
            (When::AddedOrChangedTo(_) | When::ChangedTo(_) | When::Removed | When::Added, _) => {
                false
            }
        }
    }
}

/// The parent's name without its prefix; empty if there is no parent.
pub(super) fn parent_name(parent: Option<&Element>) -> &str {
    parent.map_or("", |parent| local(parent.tag_name()))
}

/// The danger of an element and its content.
pub(super) fn of_element(
    element: &Element,
    parent: Option<&Element>,
    location: NodeLocation,
) -> Option<DangerKind> {
    if HYPERVISORS.contains(&split_prefix(element.canonical_name()).0) {
        return Some(DangerKind::Hypervisor);
    }
    let (parent, name) = (parent_name(parent), local(element.tag_name()));
    let mut rules = rules_for(parent, name, None);
    let rule = rules.find(|rule| {
        let reads_text = matches!(rule.when, When::AddedOrChangedTo(_) | When::ChangedTo(_));
        // libvirt joins the texts of all descendants, so the text of an element with children can be any value.
        let is_split = reads_text && element.children().next().is_some();
        let is_removed = matches!(location, NodeLocation::Before | NodeLocation::Removed);
        match rule.when {
            // libvirt ignores the prefix of an attribute.
            When::With(name, _) => {
                let mut values = element.attrs().filter(|(other, _)| local(other) == name);
                location == NodeLocation::InPattern
                    || values.any(|(_, value)| rule.applies(location, || value.into_owned()))
            }
            _ => (is_split && !is_removed) || rule.applies(location, || element.text()),
        }
    });
    rule.map(|rule| rule.kind)
}

/// Whether the rules for an element of this name depend on this attribute.
pub(crate) fn depends_on_attribute(element: &str, attribute: &str) -> bool {
    let mut rules = RULES_BY_NAME.get(&(false, element)).into_iter().flatten();
    rules.any(|rule| matches!(rule.when, When::With(name, _) if name == attribute))
}

/// The danger of an attribute whose element is not dangerous.
pub(super) fn of_attribute(
    attribute: &str,
    element: &Element,
    parent: Option<&Element>,
    location: NodeLocation,
) -> Option<DangerKind> {
    let (parent, name) = (parent_name(parent), local(element.tag_name()));
    let mut rules = rules_for(parent, name, Some(local(attribute)));
    // The value is only read if a rule needs it, because reading it scans the start tag.
    let rule = rules.find(|rule| match (location, element.attr(attribute)) {
        // The attribute is not there, so it has libvirt's default or no value.
        (NodeLocation::After | NodeLocation::Edited, None) => {
            let mut defaults = dangerous_defaults(element);
            defaults.any(|name| name == local(attribute))
                || rule.applies(NodeLocation::Before, String::new)
        }
        (location, value) => rule.applies(location, || value.unwrap_or_default().into_owned()),
    });
    let disguise = (!split_prefix(attribute).0.is_empty()).then_some(DangerKind::Disguise);
    rule.map(|rule| rule.kind).or(disguise)
}

/// Whether a pattern must name an element of this kind within an element of the kind `enclosing`. A
/// grant of a dangerous element includes its content, except for security labels and programs, and except for what
/// the host acts on in an element that the guest alone acts on.
pub(super) fn must_be_named(kind: DangerKind, enclosing: Option<DangerKind>) -> bool {
    let is_never_included = matches!(kind, DangerKind::SecurityLabel | DangerKind::Script);
    enclosing.is_none_or(|enclosing| {
        enclosing != kind && (is_never_included || enclosing.acts_on_guest_alone())
    })
}

/// As [`must_be_named`], for an attribute of an element of the kind `enclosing`, or in one.
pub(super) fn attribute_must_be_named(kind: DangerKind, enclosing: Option<DangerKind>) -> bool {
    enclosing.is_none_or(|enclosing| enclosing != kind && enclosing.acts_on_guest_alone())
}
