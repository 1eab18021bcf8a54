//! Finds the dangerous nodes of a change, whether it is permitted or not.

use domain_xml::matching::{DocumentIndex, ElementAt};
use domain_xml::{Change, ChangeKind, Part, Place};

use super::dangerous_set::{self, DangerKind, NodeLocation};
use super::read_once_elements::is_read_once;
use super::suggested_pattern;

/// A dangerous node of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Danger {
    /// Where: the change's path or something inside it.
    pub path: String,
    /// The kind.
    pub kind: DangerKind,
}

/// The most bytes of paths, because hostile input could fill the memory with them.
const MAX_TEXT: usize = 1 << 20;

/// The dangers of one change; `None` if the documents do not have its place.
pub(super) fn dangers<'a>(
    change: &Change,
    place: &Place,
    before: &mut DocumentIndex<'a>,
    after: &mut DocumentIndex<'a>,
) -> Option<Vec<Danger>> {
    let mut search = Search {
        path: &change.path,
        found: Vec::new(),
        text: 0,
        location: match change.kind {
            ChangeKind::Removed if place.part == Part::Element => NodeLocation::Before,
            _ if place.before.len() > place.after.len() => NodeLocation::Before,
            ChangeKind::Inserted if place.part == Part::Element => NodeLocation::After,
            _ => NodeLocation::Edited,
        },
    };
    if place.part == Part::Document {
        for (side, location) in [(before, NodeLocation::Before), (after, NodeLocation::After)] {
            let root = side.root();
            search.location = location;
            search.subtree(side, root, None);
        }
        return Some(search.found);
    }
    match place.before.len() > place.after.len() {
        true => search.changed(change, place, before, &place.before)?,
        false => search.changed(change, place, after, &place.after)?,
    }
    if place.part == Part::Element && change.kind != ChangeKind::Edited {
        let level = place.before.len().max(place.after.len());
        for (side, trail, location) in [
            (before, &place.before, NodeLocation::Before),
            (after, &place.after, NodeLocation::After),
        ] {
            search.location = location;
            search.twins(side, trail, level)?;
        }
    }
    Some(search.found)
}

/// The classes that names in a document belong to, for the values that are always or, with `any_value`, sometimes
/// dangerous.
pub(super) fn kinds_of_names(side: &mut DocumentIndex<'_>, any_value: bool) -> Vec<DangerKind> {
    let mut search = Search {
        path: "",
        found: Vec::new(),
        text: 0,
        location: match any_value {
            true => NodeLocation::InPattern,
            false => NodeLocation::Before,
        },
    };
    let root = side.root();
    search.subtree(side, root, None);
    let mut kinds: Vec<DangerKind> = search.found.iter().map(|danger| danger.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

struct Search<'c> {
    path: &'c str,
    found: Vec<Danger>,
    text: usize,
    location: NodeLocation,
}

impl Search<'_> {
    /// Adds the dangers of the changed node itself and of the elements around it. `None` if the document has no such
    /// place.
    fn changed(
        &mut self,
        change: &Change,
        place: &Place,
        side: &mut DocumentIndex<'_>,
        trail: &[usize],
    ) -> Option<()> {
        let mut at = side.root();
        let own = self.location;
        if !trail.is_empty() {
            self.location = own.of_parent();
        }
        let mut inside = self.element(&at, None, change.path.clone());
        for index in trail.split_last().map_or(&[][..], |(_, above)| above) {
            at = side.child(&at, *index)?;
            inside = self.element(&at, inside, change.path.clone());
        }
        self.location = own;
        if let Some(last) = trail.last() {
            at = side.child(&at, *last)?;
            if matches!(change.kind, ChangeKind::Inserted | ChangeKind::Removed)
                && place.part == Part::Element
            {
                self.subtree(side, at, inside);
                return Some(());
            }
            inside = self.element(&at, inside, change.path.clone());
        }
        if let (Part::Attribute(name), None) = (&place.part, inside) {
            let kind = dangerous_set::of_attribute(name, at.element, at.parent, self.location);
            self.add(kind, change.path.clone());
        }
        Some(())
    }

    /// Adds the dangers of the element's twins: of several elements that libvirt reads once, another one may count now.
    /// `level` is the element's, `trail` may end at its parent.
    fn twins(&mut self, side: &mut DocumentIndex<'_>, trail: &[usize], level: usize) -> Option<()> {
        let mut parent = side.root();
        let mut inside = None;
        let mut around = trail.iter().take(level.saturating_sub(1));
        loop {
            let location = self.location.of_parent();
            let kind = dangerous_set::of_element(parent.element, parent.parent, location);
            inside = kind
                .filter(|kind| dangerous_set::must_be_named(*kind, inside))
                .or(inside);
            let Some(index) = around.next() else { break };
            parent = side.child(&parent, *index)?;
        }
        let own = level.checked_sub(1).and_then(|last| trail.get(last));
        let name = self.path_name();
        let parent_name = dangerous_set::local(parent.element.name());
        let mut index = 0;
        while let Some(child) = side.child(&parent, index) {
            let child_name = dangerous_set::local(child.element.name());
            if Some(&index) != own && child_name == name && is_read_once(parent_name, &name) {
                self.subtree(side, child, inside);
            }
            index += 1;
        }
        Some(())
    }

    /// The name of the changed element, without prefix.
    fn path_name(&self) -> String {
        let parent = suggested_pattern::parent(self.path);
        let step = &self.path[parent.len()..];
        let name = step.trim_start_matches('/').split('[').next();
        dangerous_set::local(name.unwrap_or_default()).to_owned()
    }

    fn add(&mut self, kind: Option<DangerKind>, path: String) {
        if let Some(kind) = kind.filter(|_| self.text < MAX_TEXT) {
            self.text += path.len();
            self.found.push(Danger { path, kind });
        }
    }

    /// Adds the element's own danger. Returns the danger around its children.
    fn element(
        &mut self,
        at: &ElementAt<'_>,
        inside: Option<DangerKind>,
        path: String,
    ) -> Option<DangerKind> {
        let kind = dangerous_set::of_element(at.element, at.parent, self.location);
        let kind = kind.filter(|kind| dangerous_set::must_be_named(*kind, inside));
        self.add(kind, path);
        kind.or(inside)
    }

    /// Adds the dangers of an element and its content.
    fn subtree<'a>(
        &mut self,
        side: &mut DocumentIndex<'a>,
        top: ElementAt<'a>,
        inside: Option<DangerKind>,
    ) {
        let mut open = vec![];
        let mut next = Some((top, inside));
        while self.text < MAX_TEXT {
            if let Some((at, around)) = next.take() {
                let inner = open.iter().skip(1).map(|(at, _, _)| at);
                let inner = inner.chain((!open.is_empty()).then_some(&at));
                let path = inner.fold(self.path.to_owned(), |path, at: &ElementAt<'_>| {
                    path + "/" + at.element.canonical_name()
                });
                // What is removed with its parent is not missing from it.
                let location = match (self.location, open.is_empty()) {
                    (NodeLocation::Before, true) => NodeLocation::Removed,
                    (location, _) => location,
                };
                let was = std::mem::replace(&mut self.location, location);
                let inside = self.element(&at, around, path.clone());
                self.location = was;
                if inside.is_none() {
                    self.attributes(&at, &path);
                }
                open.push((at, inside, 0));
            }
            let Some((at, inside, index)) = open.last_mut() else {
                return;
            };
            next = side.child(at, *index).map(|child| (child, *inside));
            *index += 1;
            if next.is_none() {
                open.pop();
            }
        }
    }

    fn attributes(&mut self, at: &ElementAt<'_>, path: &str) {
        let is_new = self.location == NodeLocation::After;
        let defaults = dangerous_set::dangerous_defaults(at.element).filter(|_| is_new);
        for attribute in at.element.attribute_names().chain(defaults) {
            let kind = dangerous_set::of_attribute(attribute, at.element, at.parent, self.location);
            self.add(kind, format!("{path}/@{attribute}"));
        }
    }
}
