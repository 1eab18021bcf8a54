//! The dangerous places in a change, whoever permits them.

use super::danger::{self, DangerKind};
use super::needs_its_name;
use super::reach::{At, Side};
use crate::diff::{Part, Place};
use crate::{Change, ChangeKind};

/// A dangerous place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Danger {
    /// Where: the change's path or something inside it.
    pub path: String,
    /// Of what kind.
    pub kind: DangerKind,
}

/// Text of paths that is told at most; hostile input could fill the memory with it.
const MAX_TEXT: usize = 1 << 20;

/// The dangers of one change; `None` when the documents do not have its place.
pub(super) fn dangers<'a>(
    change: &Change,
    place: &Place,
    before: &mut Side<'a>,
    after: &mut Side<'a>,
) -> Option<Vec<Danger>> {
    let mut search = Search {
        path: &change.path,
        found: Vec::new(),
        text: 0,
    };
    if place.part == Part::Document {
        for side in [before, after] {
            let root = side.root();
            search.subtree(side, root, None);
        }
        return Some(search.found);
    }
    let (side, trail) = if place.before.len() > place.after.len() {
        (before, &place.before)
    } else {
        (after, &place.after)
    };
    let mut at = side.root();
    let mut inside = search.element(&at, None, change.path.clone());
    for index in trail.split_last().map_or(&[][..], |(_, above)| above) {
        at = side.child(&at, *index)?;
        inside = search.element(&at, inside, change.path.clone());
    }
    if let Some(last) = trail.last() {
        at = side.child(&at, *last)?;
        if matches!(change.kind, ChangeKind::Inserted | ChangeKind::Removed)
            && place.part == Part::Element
        {
            search.subtree(side, at, inside);
            return Some(search.found);
        }
        inside = search.element(&at, inside, change.path.clone());
    }
    if let (Part::Attribute(name), None) = (&place.part, inside) {
        let kind = danger::of_attribute(name, at.element, at.parent);
        search.tell(kind, change.path.clone());
    }
    Some(search.found)
}

struct Search<'c> {
    path: &'c str,
    found: Vec<Danger>,
    text: usize,
}

impl Search<'_> {
    fn tell(&mut self, kind: Option<DangerKind>, path: String) {
        if let Some(kind) = kind.filter(|_| self.text < MAX_TEXT) {
            self.text += path.len();
            self.found.push(Danger { path, kind });
        }
    }

    /// Tells the element's own danger, and gives what is around its children.
    fn element(
        &mut self,
        at: &At<'_>,
        inside: Option<DangerKind>,
        path: String,
    ) -> Option<DangerKind> {
        let kind = danger::of_element(at.element, at.parent);
        let kind = kind.filter(|kind| needs_its_name(*kind, inside));
        self.tell(kind, path);
        kind.or(inside)
    }

    /// The dangers of an element and of all that is in it.
    fn subtree<'a>(&mut self, side: &mut Side<'a>, top: At<'a>, inside: Option<DangerKind>) {
        let mut open = vec![];
        let mut next = Some((top, inside));
        while self.text < MAX_TEXT {
            if let Some((at, around)) = next.take() {
                let inner = open.iter().skip(1).map(|(at, _, _)| at);
                let inner = inner.chain((!open.is_empty()).then_some(&at));
                let path = inner.fold(self.path.to_owned(), |path, at: &At<'_>| {
                    path + "/" + at.element.canonical_name()
                });
                let inside = self.element(&at, around, path.clone());
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

    fn attributes(&mut self, at: &At<'_>, path: &str) {
        for attribute in danger::attributes(at.element) {
            let kind = danger::of_attribute(attribute.name, at.element, at.parent);
            self.tell(kind, format!("{path}/@{}", attribute.name));
        }
    }
}
