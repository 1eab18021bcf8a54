//! Walks two documents together, and reports the changes of each element that both have.

use std::rc::Rc;

use super::element_paths::{ElementPaths, Side};
use super::namespace_scope::{self, Name, Scope};
use super::{Change, ChangeKind, Part, Place, own_text, subtree_equality};
use crate::host::Budget;
use crate::{Element, render};

/// Maximum text of a diff in bytes. With more, hostile input could fill the memory with paths; the root is then
/// reported as one edit.
const MAX_TEXT: usize = 8 << 20;

pub(super) struct Differ<'a, 'b> {
    pub(super) budget: &'b Budget<'b>,
    pub(super) paths: ElementPaths<'a>,
    changes: Vec<Change>,
    text: usize,
}

/// Work that is left, last first.
pub(super) enum Work<'a> {
    Compare(Pair<'a>),
    Report(Change),
}

/// An element before, and the same element after.
pub(super) struct Pair<'a> {
    pub(super) before: &'a Element,
    pub(super) after: &'a Element,
    pub(super) scopes: (Option<Rc<Scope>>, Option<Rc<Scope>>),
    /// Whether prefixes stand for the same namespaces on both sides.
    pub(super) same_namespaces: bool,
    pub(super) visit: usize,
}

impl<'a, 'b> Differ<'a, 'b> {
    /// A walk that has not begun.
    pub(super) fn new(budget: &'b Budget<'b>) -> Self {
        Differ {
            budget,
            paths: ElementPaths::default(),
            changes: Vec::new(),
            text: 0,
        }
    }

    /// The changes that were found; `None` if they have too much text to list.
    pub(super) fn finish(self) -> Option<Vec<Change>> {
        (!self.is_full()).then_some(self.changes)
    }

    pub(super) fn roots(&mut self, before: &'a Element, after: &'a Element) {
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

    pub(super) fn report(&mut self, change: Change) {
        self.count(&change);
        self.changes.push(change);
    }

    /// Reports when its turn in the order of the document comes.
    pub(super) fn report_later(&mut self, change: Change, work: &mut Vec<Work<'a>>) {
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
    pub(super) fn is_full(&self) -> bool {
        self.text > MAX_TEXT
    }

    fn compare(&mut self, pair: &Pair<'a>, work: &mut Vec<Work<'a>>) {
        self.attributes(pair);
        self.own_text(pair);
        self.children(pair, work);
    }

    /// The place of an element or attribute that both documents have.
    pub(super) fn place(&self, visit: usize, part: Part) -> Place {
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
pub(super) fn document_place(root: &Element) -> Option<Box<Place>> {
    Some(Box::new(Place {
        before: Vec::new(),
        after: Vec::new(),
        part: Part::Document,
        rank: 0,
        namespaces: namespace_scope::undeclared_prefixes(root, None),
    }))
}

pub(super) fn removed(path: String, element: &Element, place: Option<Box<Place>>) -> Change {
    Change {
        path,
        kind: ChangeKind::Removed,
        before: Some(render::compact(element)),
        after: None,
        place,
    }
}

pub(super) fn inserted(path: String, element: &Element, place: Option<Box<Place>>) -> Change {
    Change {
        path,
        kind: ChangeKind::Inserted,
        before: None,
        after: Some(render::compact(element)),
        place,
    }
}
