//! The dangerous set, which no wildcard matches.
//!
//! QEMU reads these as files to open, programs to run or devices to take, with the rights of its
//! container. Names are compared without their prefixes: libvirt reads attributes whatever their
//! namespace (libxml2's `xmlGetProp` does), so elements are held to the same rule.

mod danger_kind;
mod rule;
mod rule_table;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use domain_xml::Element;

use rule::{Rule, When};
use rule_table::{DANGEROUS_DEFAULTS, RULES};

pub use danger_kind::{DangerKind, UnknownDanger};

/// The version of libvirt whose schema the rules were reviewed against.
pub const REVIEWED_LIBVIRT: (u32, u32, u32) = (11, 3, 0);

/// A warning if a libvirt, packed as libvirt packs versions (11003000 for 11.3.0), is newer than the one whose schema
/// was reviewed. Patch releases add no elements.
#[must_use]
pub fn unreviewed_libvirt(packed: u64) -> Option<String> {
    let (major, minor) = (packed / 1_000_000, packed / 1_000 % 1_000);
    let (known_major, known_minor, _) = REVIEWED_LIBVIRT;
    let newer = (major, minor) > (u64::from(known_major), u64::from(known_minor));
    newer.then(|| {
        format!(
            "libvirt {major}.{minor} is newer than {known_major}.{known_minor}, whose schema the dangerous set was \
             reviewed for: it may have elements that hooks should not change without the operator's word"
        )
    })
}

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLocation {
    /// Only in the document before; its parent may be gone too.
    Before,
    /// In the document before, and its parent is in both.
    Removed,
    /// In the document after only.
    After,
    /// In both documents, as it is in the document after.
    Edited,
    /// In a pattern, which stands for all values.
    InPattern,
}

impl NodeLocation {
    /// Where the elements around a changed node are: a new node is in elements that were there.
    pub(super) fn of_parent(self) -> Self {
        match self {
            Self::After => Self::Edited,
            other => other,
        }
    }
}

const HYPERVISORS: &[&str] = &["qemu", "lxc", "xen", "bhyve"];

/// `("qemu", "arg")` of `qemu:arg`; the prefix is empty if there is none.
fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

/// `arg` of `qemu:arg`.
pub(crate) fn local(name: &str) -> &str {
    split(name).1
}

/// The rules by attribute, or by element for rules about elements.
static INDEX: LazyLock<HashMap<(bool, &str), Vec<&Rule>>> = LazyLock::new(|| {
    let mut index: HashMap<_, Vec<&Rule>> = HashMap::new();
    for rule in RULES {
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
    let named = INDEX.get(&key).into_iter().flatten().copied();
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
            (When::AddedOrChangedTo(_) | When::ChangedTo(_) | When::Removed | When::Added, _) => {
                false
            }
        }
    }
}

pub(super) fn parent_name(parent: Option<&Element>) -> &str {
    parent.map_or("", |parent| local(parent.name()))
}

/// The danger of an element and its content.
pub(super) fn of_element(
    element: &Element,
    parent: Option<&Element>,
    location: NodeLocation,
) -> Option<DangerKind> {
    if HYPERVISORS.contains(&split(element.canonical_name()).0) {
        return Some(DangerKind::Hypervisor);
    }
    let (parent, name) = (parent_name(parent), local(element.name()));
    let mut rules = rules_for(parent, name, None);
    let rule = rules.find(|rule| {
        let reads_text = matches!(rule.when, When::AddedOrChangedTo(_) | When::ChangedTo(_));
        // libvirt joins the text of all descendants; no value that it knows has an element in it.
        let is_split = reads_text && element.children().next().is_some();
        let gone = matches!(location, NodeLocation::Before | NodeLocation::Removed);
        (is_split && !gone) || rule.applies(location, || element.text())
    });
    rule.map(|rule| rule.kind)
}

/// The danger of an attribute whose element is not dangerous.
pub(super) fn of_attribute(
    attribute: &str,
    element: &Element,
    parent: Option<&Element>,
    location: NodeLocation,
) -> Option<DangerKind> {
    let (parent, name) = (parent_name(parent), local(element.name()));
    let mut rules = rules_for(parent, name, Some(local(attribute)));
    // The value is looked up for rules alone: finding it takes a scan of the start tag.
    let rule = rules.find(|rule| match (location, element.attr(attribute)) {
        // A removed attribute becomes no value.
        (NodeLocation::After | NodeLocation::Edited, None) => {
            rule.applies(NodeLocation::Before, String::new)
        }
        (location, value) => rule.applies(location, || value.unwrap_or_default().into_owned()),
    });
    let disguise = (!split(attribute).0.is_empty()).then_some(DangerKind::Disguise);
    rule.map(|rule| rule.kind).or(disguise)
}

/// The attributes that a new element lacks, and of which libvirt takes a dangerous default.
pub(super) fn dangerous_defaults(element: &Element) -> impl Iterator<Item = &str> {
    let name = local(element.name());
    let of_element = DANGEROUS_DEFAULTS
        .iter()
        .filter(move |default| default.element == name);
    let absent = of_element.filter(|default| {
        let mut names = element.attribute_names();
        !names.any(|name| local(name) == default.attribute)
    });
    absent.map(|default| default.attribute)
}

/// Whether a pattern must name an element of this kind inside of `inside`. A grant of a dangerous
/// element includes its content, except for security labels and programs.
pub(super) fn must_be_named(kind: DangerKind, inside: Option<DangerKind>) -> bool {
    let is_never_included = matches!(kind, DangerKind::SecurityLabel | DangerKind::Script);
    inside.is_none_or(|inside| is_never_included && inside != kind)
}
