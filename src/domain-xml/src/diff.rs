//! The differences between two documents.
//!
//! Both trees are walked together. Children are paired by what identifies them (see [`element_keys`]), so that a change
//! is reported for the element that changed, wherever it stands. White space between elements, quotes, entities, CDATA,
//! comments, namespace prefixes, `<a/>` for `<a></a>` and the order of siblings of different names are no changes.

mod child_pairing;
pub(crate) mod element_keys;
mod element_paths;
pub(crate) mod namespace_scope;
pub(crate) mod sibling_index;
mod subtree_equality;

use std::rc::Rc;

use crate::byte_classes::is_blank;
use crate::host::Budget;
use crate::start_tag::Attribute;
use crate::{Document, Element, name, render};
use element_paths::{ElementPaths, Side};
use namespace_scope::{Name, Scope};
use sibling_index::SiblingIndex;
use subtree_equality::AttributeIndex;

/// The differences between two documents, outer before inner and in document order.
pub fn diff(before: &Document, after: &Document) -> Vec<Change> {
    diff_within(before, after, &Budget::unlimited())
}

/// As [`diff`], within a budget. If the budget is [exhausted](Budget::exhausted), changes are missing.
pub fn diff_within(before: &Document, after: &Document, budget: &Budget<'_>) -> Vec<Change> {
    let mut differ = Differ::new(budget);
    differ.roots(&before.root, &after.root);
    if let Some(changes) = differ.finish() {
        return changes;
    }
    vec![Change {
        path: format!("/{}", before.root.canonical_name()),
        kind: ChangeKind::Edited,
        before: Some(render::compact(&before.root)),
        after: Some(render::compact(&after.root)),
        place: document_place(&after.root),
    }]
}

/// The element's text without the white space that only indents its children.
pub(crate) fn own_text(element: &Element) -> String {
    if !element.has_text() {
        return String::new();
    }
    let text = element.text();
    if is_blank(&text) {
        return String::new();
    }
    if element.children().next().is_none() {
        return text;
    }
    element.text_without_layout()
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The place is new.
    Inserted,
    /// The place was removed.
    Removed,
    /// The value changed.
    Edited,
    /// The element has another position among its siblings.
    Moved,
}

/// One difference between two documents. Changes are compared by path, kind and values.
#[derive(Debug, Clone)]
pub struct Change {
    /// A [`PathPattern`](crate::PathPattern) that selects the place in the document before, or in the document after
    /// for an insertion.
    pub path: String,
    /// The kind of change.
    pub kind: ChangeKind,
    /// An attribute's value, an element's own text, a removed element as XML without layout;
    /// for a move the position among the siblings of its name, from 1.
    pub before: Option<String>,
    /// The same for the document after.
    pub after: Option<String>,
    /// The place, if the change comes from a diff.
    pub(crate) place: Option<Box<Place>>,
}

/// The position of a change in both documents, by indices rather than by its path.
#[derive(Debug, Clone)]
pub struct Place {
    /// The element, or the one with the attribute, in the document before: its index among the
    /// element children, level by level below the root. For an insertion, the parent.
    pub before: Vec<usize>,
    /// The same in the document after. For a removal, the parent.
    pub after: Vec<usize>,
    /// What changed there.
    pub part: Part,
    /// Of an inserted or moved element: how many siblings of its name stand before it in the document after.
    pub(crate) rank: usize,
    /// The namespaces of prefixes that an inserted element or attribute uses without declaring them.
    pub(crate) namespaces: Vec<Binding>,
}

/// A prefix, empty for the default namespace, and its namespace.
pub(crate) type Binding = (String, Option<String>);

/// The part of an element that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The element itself.
    Element,
    /// An attribute, by its name as written.
    Attribute(String),
    /// The element's text.
    Text,
    /// The root element was replaced, or there are too many changes to list.
    Document,
}

impl Change {
    /// A change that does not come from a [`diff`](crate::host::diff()). It can be shown and compared;
    /// [`apply`](crate::host::apply()) and grants refuse it.
    pub fn new(
        path: impl Into<String>,
        kind: ChangeKind,
        before: Option<String>,
        after: Option<String>,
    ) -> Change {
        Change {
            path: path.into(),
            kind,
            before,
            after,
            place: None,
        }
    }

    /// The position in both documents; `None` if no diff found the change.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_deref()
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.kind, &self.before, &self.after)
            == (&other.path, other.kind, &other.before, &other.after)
    }
}

impl Eq for Change {}

/// Maximum text of a diff in bytes. With more, hostile input could fill the memory with paths; the root is then
/// reported as one edit.
const MAX_TEXT: usize = 8 << 20;

struct Differ<'a, 'b> {
    budget: &'b Budget<'b>,
    paths: ElementPaths<'a>,
    changes: Vec<Change>,
    text: usize,
}

/// Work that is left, last first.
enum Work<'a> {
    Compare(Pair<'a>),
    Report(Change),
}

/// An element before, and the same element after.
struct Pair<'a> {
    before: &'a Element,
    after: &'a Element,
    scopes: (Option<Rc<Scope>>, Option<Rc<Scope>>),
    /// Whether prefixes stand for the same namespaces on both sides.
    same_namespaces: bool,
    visit: usize,
}

impl<'a, 'b> Differ<'a, 'b> {
    /// A walk that has not begun.
    fn new(budget: &'b Budget<'b>) -> Self {
        Differ {
            budget,
            paths: ElementPaths::default(),
            changes: Vec::new(),
            text: 0,
        }
    }

    /// The changes that were found; `None` if they have too much text to list.
    fn finish(self) -> Option<Vec<Change>> {
        (!self.is_full()).then_some(self.changes)
    }

    fn roots(&mut self, before: &'a Element, after: &'a Element) {
        let scopes = (
            namespace_scope::enter(None, before),
            namespace_scope::enter(None, after),
        );
        if Name::of(before, scopes.0.as_ref()) != Name::of(after, scopes.1.as_ref()) {
            let path = |root: &Element| format!("/{}", root.canonical_name());
            self.report(removed(path(before), before, document_place(before)));
            return self.report(inserted(path(after), after, document_place(after)));
        }
        let same_namespaces =
            namespace_scope::same_root_scope(scopes.0.as_ref(), scopes.1.as_ref());
        if same_namespaces && subtree_equality::is_written_alike(before, after, self.budget) {
            return;
        }
        let visit = self.paths.root(before, after);
        let mut work = vec![Work::Compare(Pair {
            before,
            after,
            scopes,
            same_namespaces,
            visit,
        })];
        while let Some(next) = work.pop() {
            if self.is_full() || !self.budget.spend(1) {
                return;
            }
            match next {
                Work::Report(change) => self.changes.push(change),
                Work::Compare(pair) => {
                    self.paths.leave(pair.visit);
                    self.compare(&pair, &mut work);
                }
            }
        }
    }

    fn report(&mut self, change: Change) {
        self.count(&change);
        self.changes.push(change);
    }

    /// Reports when its turn in the order of the document comes.
    fn report_later(&mut self, change: Change, work: &mut Vec<Work<'a>>) {
        self.count(&change);
        work.push(Work::Report(change));
    }

    fn count(&mut self, change: &Change) {
        let held = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let place = change.place.as_ref();
        let place = place.map_or(0, |place| {
            let levels = place.before.len() + place.after.len();
            let bindings = place.namespaces.iter();
            let bindings = bindings.map(|(prefix, uri)| prefix.len() + held(uri) + 64);
            levels * size_of::<usize>() + bindings.sum::<usize>()
        });
        self.text += change.path.len() + held(&change.before) + held(&change.after) + place + 64;
    }

    /// Whether the changes so far have more text than a diff may have; asked before each text is made.
    fn is_full(&self) -> bool {
        self.text > MAX_TEXT
    }

    fn compare(&mut self, pair: &Pair<'a>, work: &mut Vec<Work<'a>>) {
        self.attributes(pair);
        self.own_text(pair);
        self.children(pair, work);
    }

    /// The place of an element or attribute that both documents have.
    fn place(&self, visit: usize, part: Part) -> Place {
        Place {
            before: self.paths.indices(visit, Side::Before),
            after: self.paths.indices(visit, Side::After),
            part,
            rank: 0,
            namespaces: Vec::new(),
        }
    }

    fn own_text(&mut self, pair: &Pair<'a>) {
        let (before, after) = (own_text(pair.before), own_text(pair.after));
        if before != after {
            let path = self.paths.path(pair.visit, Side::Before);
            let kind = ChangeKind::Edited;
            self.report(Change {
                path,
                kind,
                before: Some(before),
                after: Some(after),
                place: Some(Box::new(self.place(pair.visit, Part::Text))),
            });
        }
    }
}

/// The place of a root element that is replaced.
fn document_place(root: &Element) -> Option<Box<Place>> {
    Some(Box::new(Place {
        before: Vec::new(),
        after: Vec::new(),
        part: Part::Document,
        rank: 0,
        namespaces: namespace_scope::undeclared_prefixes(root, None),
    }))
}

fn removed(path: String, element: &Element, place: Option<Box<Place>>) -> Change {
    Change {
        path,
        kind: ChangeKind::Removed,
        before: Some(render::compact(element)),
        after: None,
        place,
    }
}

fn inserted(path: String, element: &Element, place: Option<Box<Place>>) -> Change {
    Change {
        path,
        kind: ChangeKind::Inserted,
        before: None,
        after: Some(render::compact(element)),
        place,
    }
}

impl<'a> Differ<'a, '_> {
    fn attributes(&mut self, pair: &Pair<'a>) {
        if pair.same_namespaces && pair.before.tag() == pair.after.tag() {
            return;
        }
        let before = AttributeIndex::new(pair.before, pair.scopes.0.as_ref());
        let after = AttributeIndex::new(pair.after, pair.scopes.1.as_ref());
        for (at, (name, attribute)) in before.list.iter().enumerate() {
            let now = after.get(name, at);
            if now.is_some_and(|now| now.raw == attribute.raw || now.value() == attribute.value()) {
                continue;
            }
            let kind = if now.is_some() {
                ChangeKind::Edited
            } else {
                ChangeKind::Removed
            };
            let value = Some(attribute.value().into_owned());
            let now = now.map(|attribute| attribute.value().into_owned());
            self.attribute(pair, attribute, kind, (value, now));
        }
        for (at, (name, attribute)) in after.list.iter().enumerate() {
            if before.get(name, at).is_none() {
                let value = Some(attribute.value().into_owned());
                self.attribute(pair, attribute, ChangeKind::Inserted, (None, value));
            }
        }
    }

    fn attribute(
        &mut self,
        pair: &Pair<'a>,
        attribute: &Attribute<'_>,
        kind: ChangeKind,
        (before, after): (Option<String>, Option<String>),
    ) {
        if self.is_full() {
            return;
        }
        let (side, scope) = if kind == ChangeKind::Inserted {
            (Side::After, pair.scopes.1.as_ref())
        } else {
            (Side::Before, pair.scopes.0.as_ref())
        };
        let written = attribute.name;
        let mut place = self.place(pair.visit, Part::Attribute(written.to_owned()));
        let prefix = name::split(written).0;
        if !prefix.is_empty() {
            let bound = namespace_scope::resolve(scope, prefix).map(|uri| uri.to_string());
            place.namespaces.push((prefix.to_owned(), bound));
        }
        let mut path = self.paths.path(pair.visit, side);
        path.push_str("/@");
        path.push_str(written);
        self.report(Change {
            path,
            kind,
            before,
            after,
            place: Some(Box::new(place)),
        });
    }

    /// The place of a child; the index is `None` for a document without the child.
    fn place_below(&self, visit: usize, old: Option<usize>, new: Option<usize>) -> Box<Place> {
        let mut place = self.place(visit, Part::Element);
        place.before.extend(old);
        place.after.extend(new);
        Box::new(place)
    }

    fn children(&mut self, pair: &Pair<'a>, work: &mut Vec<Work<'a>>) {
        let before = SiblingIndex::new(pair.before, pair.scopes.0.as_ref());
        let after = SiblingIndex::new(pair.after, pair.scopes.1.as_ref());
        self.budget
            .spend((before.list.len() + after.list.len()) as u64);
        let partner = child_pairing::pair(&before, &after, pair.same_namespaces, self.budget);
        let moved = child_pairing::moved_within_groups(before.name_groups(), &partner);
        let mut origin = vec![None; after.list.len()];
        for (old, new) in partner.iter().enumerate() {
            if self.is_full() {
                return;
            }
            match new {
                Some(new) => origin[*new] = Some(old),
                None => {
                    let path = self
                        .paths
                        .path_below(pair.visit, Side::Before, &before.step(old));
                    let place = self.place_below(pair.visit, Some(old), None);
                    self.report(removed(path, before.list[old].element, Some(place)));
                }
            }
        }
        // The work list is a stack: what comes last in the document goes in first.
        for (new, old) in origin.iter().enumerate().rev() {
            if self.is_full() {
                return;
            }
            match old {
                Some(old) => self.paired(pair, (&before, *old), (&after, new), moved[*old], work),
                None => {
                    let path = self
                        .paths
                        .path_below(pair.visit, Side::After, &after.step(new));
                    let element = after.list[new].element;
                    let mut place = self.place_below(pair.visit, None, Some(new));
                    place.rank = after.rank(new);
                    place.namespaces =
                        namespace_scope::undeclared_prefixes(element, pair.scopes.1.as_ref());
                    self.report_later(inserted(path, element, Some(place)), work);
                }
            }
        }
    }

    fn paired(
        &mut self,
        parent: &Pair<'a>,
        (before, old): (&SiblingIndex<'a>, usize),
        (after, new): (&SiblingIndex<'a>, usize),
        moved: bool,
        work: &mut Vec<Work<'a>>,
    ) {
        let (was, is) = (&before.list[old], &after.list[new]);
        let step = before.step(old);
        if moved {
            let path = self.paths.path_below(parent.visit, Side::Before, &step);
            let position = |rank: usize| Some((rank + 1).to_string());
            let mut place = self.place_below(parent.visit, Some(old), Some(new));
            place.rank = after.rank(new);
            let change = Change {
                path,
                kind: ChangeKind::Moved,
                before: position(before.rank(old)),
                after: position(after.rank(new)),
                place: Some(place),
            };
            self.report_later(change, work);
        }
        let scopes = (was.scope.clone(), is.scope.clone());
        let same_namespaces =
            parent.same_namespaces && namespace_scope::same_declarations(was.element, is.element);
        if same_namespaces
            && subtree_equality::is_written_alike(was.element, is.element, self.budget)
        {
            return;
        }
        let visit = self.paths.below(parent.visit, step, after.step(new));
        work.push(Work::Compare(Pair {
            before: was.element,
            after: is.element,
            scopes,
            same_namespaces,
            visit,
        }));
    }
}

#[cfg(test)]
mod tests;
