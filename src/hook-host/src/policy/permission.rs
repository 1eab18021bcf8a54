//! Whether path patterns permit a change.
//!
//! A pattern permits what it selects and nothing beside it:
//!
//! - a pattern that ends in an attribute permits setting, changing and removing that attribute;
//! - one that ends in an element permits inserting and removing the element, its own text, and the order
//!   of its children; its attributes and children need patterns of their own;
//! - one that ends in `**` permits all that and everything below, attributes included.
//!
//! So an inserted or removed element needs a pattern for itself and for each of its children, and a move
//! needs a pattern for the parent. Only a new parent that is nothing but a container (`CONTAINERS`) needs no pattern
//! besides that of its content. A pattern with a condition permits nodes of the document after whose value meets it, and
//! no removals, which leave no value. Predicates must hold in the document before for edited and removed
//! nodes, in the document after for edited and inserted nodes, and in both documents for their
//! ancestors. Under a predicate, an element that shares its identity with a sibling is refused.
//!
//! The *dangerous set* ([`DangerKind`]) is matched by no wildcard: the last step of the pattern must be
//! the name of the dangerous element or attribute. Below a dangerous element wildcards match again,
//! except for security labels and programs. No pattern permits a [`ReservedNode`].

mod change_check;
mod danger_search;
mod dangerous_set;
#[cfg(test)]
pub(crate) mod libvirt_schema_for_tests;
mod read_once_elements;
mod suggested_pattern;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use domain_xml::host::{
    Budget, Change, DocumentIndex, ElementAt, Part, PatternSet, PatternStates, tag_bytes,
};
use domain_xml::{Document, Element, PathPattern};

use crate::ConditionedPath;
use change_check::{ChangeCheck, CheckResult};
pub use danger_search::Danger;
pub use dangerous_set::{DangerKind, REVIEWED_LIBVIRT, UnknownDanger, unreviewed_libvirt};
use dangerous_set::{NodeLocation, parent_name};
pub(crate) use dangerous_set::{depends_on_attribute, local};
pub(crate) use read_once_elements::duplicates;
use read_once_elements::is_read_once;

/// Whether patterns permit a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Permitted.
    Granted {
        /// The indices of the patterns that the change needs, ascending.
        by: Vec<usize>,
    },
    /// Not permitted.
    Refused(Refusal),
}

/// Whether the paths permit a change of `diff(before, after)`. For many changes of one
/// diff use a [`Checker`].
pub fn permits(
    paths: &[ConditionedPath],
    change: &Change,
    before: &Document,
    after: &Document,
) -> Permission {
    Checker::new(paths, before, after).permits(change)
}

/// All dangerous nodes of a change of `diff(before, after)`: the node itself, its ancestors, and the
/// nodes that are inserted or removed with it. For many changes of one diff use a [`Checker`].
pub fn dangers(change: &Change, before: &Document, after: &Document) -> Vec<Danger> {
    Checker::new(&[], before, after).dangers(change)
}

/// The outermost kind of danger in a change, as [`dangers`] finds it.
pub fn dangerous(change: &Change, before: &Document, after: &Document) -> Option<DangerKind> {
    let dangers = dangers(change, before, after);
    dangers.first().map(|danger| danger.kind)
}

/// [`permits`] for all changes of one diff.
pub struct Checker<'a> {
    paths: &'a [ConditionedPath],
    set: PatternSet,
    before: DocumentIndex<'a>,
    after: DocumentIndex<'a>,
    ancestry: Vec<ElementMatchState<'a>>,
    budget: Rc<Budget<'a>>,
    granted_dangers: Vec<DangerKind>,
    /// Whether the changes put a boot from the network before the boot from a disk; not known before it is needed.
    boots_from_network_earlier: OnceCell<bool>,
}

impl<'a> Checker<'a> {
    /// A checker for the changes of `diff(before, after)`.
    pub fn new(paths: &'a [ConditionedPath], before: &'a Document, after: &'a Document) -> Self {
        Self::within(paths, before, after, Rc::new(Budget::unlimited()))
    }

    /// As [`Self::new`], within a budget. Once it is exhausted, every change is refused as unchecked.
    pub fn within(
        paths: &'a [ConditionedPath],
        before: &'a Document,
        after: &'a Document,
        budget: Rc<Budget<'a>>,
    ) -> Self {
        Checker {
            paths,
            set: PatternSet::new(&patterns_of(paths)),
            before: DocumentIndex::new(before.root()),
            after: DocumentIndex::new(after.root()),
            ancestry: Vec::new(),
            budget,
            granted_dangers: Vec::new(),
            boots_from_network_earlier: OnceCell::new(),
        }
    }

    /// Also grants these kinds of the dangerous set as a whole.
    #[must_use]
    pub fn granting(self, kinds: &[DangerKind]) -> Self {
        Checker {
            granted_dangers: kinds.to_vec(),
            ..self
        }
    }

    /// Whether the patterns permit the change.
    pub fn permits(&mut self, change: &Change) -> Permission {
        match self.check(None, change) {
            Ok(by) => Permission::Granted { by },
            Err(mut refusal) => {
                refusal.suggested_pattern = self.suggested_pattern(change, &refusal);
                Permission::Refused(*refusal)
            }
        }
    }

    /// The kinds of the dangerous set that names in the document after belong to, whatever their values; with
    /// `any_value`, also those of which only some values are dangerous.
    pub(crate) fn kinds_of_names(&mut self, any_value: bool) -> Vec<DangerKind> {
        danger_search::kinds_of_names(&mut self.after, any_value)
    }

    /// All dangerous nodes of the change, permitted or not; empty if the change is not of the diff.
    pub fn dangers(&mut self, change: &Change) -> Vec<Danger> {
        let place = change.place();
        let dangers = place.and_then(|place| {
            let boots = &self.boots_from_network_earlier;
            danger_search::dangers(change, place, &mut self.before, &mut self.after, boots)
        });
        dangers.unwrap_or_default()
    }

    /// Checks a change against `others`, or else against the checker's own patterns. Returns the patterns that are
    /// needed.
    fn check(
        &mut self,
        others: Option<&PatternSet>,
        change: &Change,
    ) -> Result<Vec<usize>, Box<Refusal>> {
        let place = match change.place() {
            None => return Err(refusal(change.path.clone(), RefusalReason::NotInDiff)),
            Some(place) if place.part == Part::Document => {
                return Err(refusal(
                    change.path.clone(),
                    RefusalReason::DocumentReplaced,
                ));
            }
            Some(place) => place,
        };
        let ancestry = match others {
            Some(_) => Vec::new(),
            None => std::mem::take(&mut self.ancestry),
        };
        let mut check = ChangeCheck {
            set: others.unwrap_or(&self.set),
            paths: self.paths,
            granted_dangers: &self.granted_dangers,
            before: &mut self.before,
            after: &mut self.after,
            ancestry,
            budget: &self.budget,
            boots_from_network_earlier: &self.boots_from_network_earlier,
            used_patterns: BTreeSet::new(),
        };
        let checked = check.run(change, place);
        let ChangeCheck {
            ancestry,
            used_patterns,
            ..
        } = check;
        if others.is_none() {
            self.ancestry = ancestry;
        }
        checked.map(|()| used_patterns.into_iter().collect())
    }

    /// A pattern that would permit the whole change, or else at least the refused node. Each candidate is checked
    /// before it is returned.
    fn suggested_pattern(&mut self, change: &Change, refusal: &Refusal) -> Option<String> {
        if matches!(
            refusal.reason,
            RefusalReason::Reserved(_)
                | RefusalReason::NotInDiff
                | RefusalReason::DocumentReplaced
                | RefusalReason::CheckBudgetExhausted
                // The path is granted already; a value that meets its condition is the remedy.
                | RefusalReason::ConditionNotMet { .. }
        ) {
            return None;
        }
        let mut partial = Vec::new();
        for candidate in suggested_pattern::candidates(&refusal.path, &change.path) {
            let mut patterns = patterns_of(self.paths);
            patterns.push(PathPattern::parse(&candidate).ok()?);
            match self.check(Some(&PatternSet::new(&patterns)), change) {
                Ok(_) => return Some(candidate),
                Err(still) if still.path == refusal.path => {}
                Err(_) => partial.push(candidate),
            }
        }
        // For a new or removed element the pattern of the whole element is best; the next refusal then names a
        // dangerous node in the element.
        let whole = partial.iter().position(|pattern| pattern.ends_with("/**"));
        let best = whole.unwrap_or(0);
        (best < partial.len()).then(|| partial.swap_remove(best))
    }
}

fn patterns_of(paths: &[ConditionedPath]) -> Vec<PathPattern> {
    paths.iter().map(|path| path.pattern.clone()).collect()
}

/// A node whose change is not permitted, and the pattern that would permit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The outermost node that no pattern permits: the change's path, a path inside of it, or the
    /// parent's if its children are reordered.
    pub path: String,
    /// Why the change is not permitted.
    pub reason: RefusalReason,
    /// A pattern that would permit the change; none if no pattern can.
    pub suggested_pattern: Option<String>,
}

impl Refusal {
    /// Whether the node is refused for what it tells the guest alone.
    fn acts_on_guest_alone(&self) -> bool {
        matches!(&self.reason, RefusalReason::Dangerous(kind) if kind.acts_on_guest_alone())
    }
}

/// Why a change is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// No hook may change the node.
    Reserved(ReservedNode),
    /// The node is in the dangerous set, and no pattern names it.
    Dangerous(DangerKind),
    /// A pattern would select the node, but a predicate matches several siblings, or the element has no identity but
    /// its position.
    Ambiguous {
        /// The index of the pattern.
        pattern: usize,
    },
    /// The order of children changed, and no pattern permits the parent.
    ReorderedChildren,
    /// A pattern selects the node, and its value does not meet the pattern's condition.
    ConditionNotMet {
        /// The index of the pattern.
        pattern: usize,
        /// The value, and why it does not meet the condition.
        reason: String,
    },
    /// No pattern selects the node.
    NoPattern {
        /// The index of the pattern that matches the deepest ancestor, if any.
        nearest: Option<usize>,
    },
    /// The change is not of a diff of these documents.
    NotInDiff,
    /// The budget was exhausted before this change was checked.
    CheckBudgetExhausted,
    /// The root element has another name, or the documents differ too much for a diff by path.
    DocumentReplaced,
}

fn refusal(path: String, reason: RefusalReason) -> Box<Refusal> {
    Box::new(Refusal {
        path,
        reason,
        suggested_pattern: None,
    })
}

// Elements that are nothing but containers: libvirt reads their children and nothing of themselves, so that a domain with
// an empty one is the same as without.
//
// A grant of something in such an element includes that the missing element is made, since that alone changes nothing.
// Elements whose presence or defaults have a meaning are not among them, however empty: `<hyperv/>`, `<acpi/>` and all
// others in `features`, those in `memoryBacking`, `<cpu/>`, `<clock/>`, `<driver/>`, any device.

/// The names of parent and child. libvirt reads each once in its parent, so that a new one is no second one.
const CONTAINERS: &[(&str, &str)] = &[
    // Tuning of cgroups and threads: each child is a setting, and there is no default without it.
    ("domain", "blkiotune"),
    ("domain", "cputune"),
    ("domain", "memtune"),
    // libvirt looks for `numatune/memory` and `numatune/memnode`.
    ("domain", "numatune"),
    // A list; `iothreads` is their number.
    ("domain", "iothreadids"),
    // Lists of events, and of states that the guest may enter. What is not listed has libvirt's default.
    ("domain", "perf"),
    ("domain", "pm"),
    // Limits of throughput: one that is not there is no limit.
    ("disk", "iotune"),
    ("interface", "tune"),
    // Entries of tables of SMBIOS; libvirt drops a table without entries.
    ("sysinfo", "bios"),
    ("sysinfo", "chassis"),
    ("sysinfo", "system"),
];

/// Whether an element is a container, without attributes and text of its own, around at least one element. Names are
/// compared with their prefixes: in a namespace the element is another one.
fn is_container(element: &Element, parent: Option<&Element>) -> bool {
    let parent = parent.map_or("", Element::canonical_name);
    let name = element.canonical_name();
    CONTAINERS.contains(&(parent, name))
        && element.attribute_names().next().is_none()
        && element.text().trim().is_empty()
        && element.children().next().is_some()
}

/// The namespace of KubeVirt's metadata.
const KUBEVIRT_NAMESPACE: &str = "http://kubevirt.io";

/// Nodes that no hook may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReservedNode {
    /// `/domain/name`
    Name,
    /// `/domain/uuid`, and the UUID in `/domain/sysinfo/system`, from which libvirt takes the domain's if there is no
    /// other.
    Uuid,
    /// KubeVirt's element in `/domain/metadata`.
    Metadata,
}

impl fmt::Display for ReservedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReservedNode::Name => "the domain's name",
            ReservedNode::Uuid => "the domain's UUID",
            ReservedNode::Metadata => "KubeVirt's metadata",
        })
    }
}

/// The reserved node that an element at this depth is, if any; the root has depth 0.
fn reserved(depth: usize, element: &Element, parent: Option<&Element>) -> Option<ReservedNode> {
    match (depth, parent_name(parent), local(element.tag_name())) {
        (1, _, "name") => Some(ReservedNode::Name),
        (1, _, "uuid") => Some(ReservedNode::Uuid),
        (2, "metadata", _) if is_kubevirts(element) => Some(ReservedNode::Metadata),
        (3, "system", "entry") if is_uuid(element) => Some(ReservedNode::Uuid),
        _ => None,
    }
}

/// Whether an entry of SMBIOS is the UUID. libvirt reads the name as it is; other notations of it are no entry of SMBIOS.
fn is_uuid(entry: &Element) -> bool {
    let mut attributes = entry.attrs();
    attributes
        .any(|(name, value)| local(name) == "name" && value.trim().eq_ignore_ascii_case("uuid"))
}

/// Whether a child of `<metadata>` is KubeVirt's, by name or by namespace: libvirt keeps one child of each namespace,
/// whatever its name is.
pub(crate) fn is_kubevirts(child: &Element) -> bool {
    local(child.tag_name()) == "kubevirt"
        || child.namespace().as_deref() == Some(KUBEVIRT_NAMESPACE)
}

/// The bytes that [`is_kubevirts`] reads: namespaces are declared in the child or in its ancestors.
pub(crate) fn namespace_bytes(root: &Element, metadata: &Element, child: &Element) -> usize {
    tag_bytes(root) + tag_bytes(metadata) + tag_bytes(child)
}

impl<'a> ChangeCheck<'_, 'a> {
    /// Checks the duplicates of a new or removed element. Of several elements of the same name libvirt may read only
    /// one, and this one may be another after the change, so all of them count as changed.
    fn check_duplicates(
        &mut self,
        parent: &ElementMatchState<'a>,
        changed: &ElementMatchState<'a>,
        path: &impl Fn() -> String,
    ) -> CheckResult {
        let name = local(changed.name());
        if !is_read_once(local(parent.name()), name) {
            return Ok(());
        }
        let is_duplicate = |at: &ElementAt<'a>| {
            let changed_elements = [&changed.before, &changed.after].into_iter().flatten();
            local(at.element.tag_name()) == name
                && !changed_elements
                    .into_iter()
                    .any(|changed| std::ptr::eq(changed.element, at.element))
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (side, parent, duplicates) in [
            (&mut *self.before, &parent.before, &mut before),
            (&mut *self.after, &parent.after, &mut after),
        ] {
            let Some(parent) = parent else { continue };
            let children = (0..).map_while(|index| side.child(parent, index));
            let budget = self.budget;
            let children = children.take_while(|_| budget.spend(1));
            duplicates.extend(children.filter(is_duplicate));
        }
        for at in before {
            let duplicate = self.enter_element(Some(parent), NO_INDICES, Some(at), None);
            self.check_subtree(duplicate, path)?;
        }
        for at in after {
            let duplicate = self.enter_element(Some(parent), NO_INDICES, None, Some(at));
            self.check_subtree(duplicate, path)?;
        }
        Ok(())
    }
}

/// For the root, and for elements that are not ancestors of a change: their indices are never compared.
const NO_INDICES: (Option<usize>, Option<usize>) = (None, None);

/// An element of one document or of both, and how far the patterns match it.
#[derive(Clone)]
struct ElementMatchState<'a> {
    /// The index in the parent, before and after.
    indices: (Option<usize>, Option<usize>),
    before: Option<ElementAt<'a>>,
    after: Option<ElementAt<'a>>,
    pattern_states: PatternStates,
    depth: usize,
    /// The kind of the dangerous element that contains this element.
    enclosing_danger: Option<DangerKind>,
    /// The element's own danger, if a pattern must name the element.
    own_danger: Option<DangerKind>,
    reserved: Option<ReservedNode>,
    /// In an element of both documents, the attributes for which libvirt takes a dangerous default now and did not before.
    new_defaults: Vec<&'static str>,
    /// The first pattern that stopped at an ambiguous predicate between the root and this element.
    ambiguous_pattern: Option<usize>,
}

/// Where an element of the document after is, given the element before.
fn location_after(before: &Option<ElementAt<'_>>) -> NodeLocation {
    match before {
        Some(_) => NodeLocation::Edited,
        None => NodeLocation::After,
    }
}

impl<'a> ElementMatchState<'a> {
    /// The element in the document after, or else before.
    fn at(&self) -> Option<&ElementAt<'a>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    fn name(&self) -> &'a str {
        self.at().map_or("", |at| at.element.canonical_name())
    }

    /// The danger of an attribute, if a pattern must name the attribute.
    fn attribute_danger(&self, name: &str) -> Option<DangerKind> {
        let enclosing = self.own_danger.or(self.enclosing_danger);
        if enclosing.is_some_and(|kind| !kind.acts_on_guest_alone()) {
            return None;
        }
        let danger = |at: &Option<ElementAt<'_>>, location| {
            let at = at.as_ref()?;
            dangerous_set::of_attribute(name, at.element, at.parent, location)
        };
        let found = danger(&self.before, NodeLocation::Before)
            .or_else(|| danger(&self.after, location_after(&self.before)));
        found.filter(|kind| dangerous_set::attribute_must_be_named(*kind, enclosing))
    }
}

#[cfg(test)]
mod tests;
