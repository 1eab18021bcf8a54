//! Finds the dangerous nodes of a change, whether it is permitted or not.

use std::cell::OnceCell;

use domain_xml::host::{Budget, Change, ChangeKind, Part, Place};
use domain_xml::host::{DocumentIndex, ElementAt};

use super::dangerous_set::{self, DangerKind, NodeLocation};
use super::read_once_elements::is_read_once;
use super::suggested_pattern;

/// A dangerous node of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Danger {
    /// The path of the node: the change's path, or a path below it.
    pub path: String,
    /// The kind of the dangerous set.
    pub kind: DangerKind,
}

/// Maximum bytes of all paths that are found: hostile input could otherwise fill the memory.
const MAX_PATH_BYTES: usize = 1 << 20;

/// The dangers of one change; `None` if the documents do not have the changed place.
pub(super) fn dangers<'a>(
    change: &Change,
    place: &Place,
    before: &mut DocumentIndex<'a>,
    after: &mut DocumentIndex<'a>,
    boots_from_network_earlier: &OnceCell<bool>,
) -> Option<Vec<Danger>> {
    let roots = (before.root().element, after.root().element);
    let boots_from_network_earlier = || {
        *boots_from_network_earlier.get_or_init(|| {
            dangerous_set::boots_from_network_earlier(roots.0, roots.1, &Budget::unlimited())
        })
    };
    let mut search = DangerSearch {
        path: &change.path,
        dangers: Vec::new(),
        path_bytes: 0,
        boots_from_network_earlier: &boots_from_network_earlier,
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
            search.add_subtree(side, root, None);
        }
        return Some(search.dangers);
    }
    match place.before.len() > place.after.len() {
        true => {
            search.add_changed_node(change, place, before, &place.before)?;
            search.add_remaining_ancestors(change, after, &place.after)?;
        }
        false => search.add_changed_node(change, place, after, &place.after)?,
    }
    if place.part == Part::Element && change.kind != ChangeKind::Edited {
        let level = place.before.len().max(place.after.len());
        for (side, indices, location) in [
            (&mut *before, &place.before, NodeLocation::Before),
            (&mut *after, &place.after, NodeLocation::After),
        ] {
            search.location = location;
            search.add_duplicates(side, indices, level)?;
        }
    }
    search.location = NodeLocation::Edited;
    search.add_new_defaults(change, place, before, after)?;
    Some(search.dangers)
}

/// The kinds of the dangerous set to which the names in a document belong, whatever their values; with `any_value`,
/// also the kinds to which only some values of a name belong.
pub(super) fn kinds_of_names(side: &mut DocumentIndex<'_>, any_value: bool) -> Vec<DangerKind> {
    let mut search = DangerSearch {
        path: "",
        dangers: Vec::new(),
        path_bytes: 0,
        boots_from_network_earlier: &|| any_value,
        location: match any_value {
            true => NodeLocation::InPattern,
            false => NodeLocation::Before,
        },
    };
    let root = side.root();
    search.add_subtree(side, root, None);
    let mut kinds: Vec<DangerKind> = search.dangers.iter().map(|danger| danger.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

struct DangerSearch<'c> {
    /// The path of the change.
    path: &'c str,
    dangers: Vec<Danger>,
    /// Bytes of the paths in `dangers`.
    path_bytes: usize,
    /// Whether the changes put a boot from the network before the boot from a disk.
    boots_from_network_earlier: &'c dyn Fn() -> bool,
    /// Where the nodes are that are added next.
    location: NodeLocation,
}

impl DangerSearch<'_> {
    /// Adds the dangers of the changed node and of its ancestors. `None` if the document has no such place.
    fn add_changed_node(
        &mut self,
        change: &Change,
        place: &Place,
        side: &mut DocumentIndex<'_>,
        indices: &[usize],
    ) -> Option<()> {
        let mut at = side.root();
        let node_location = self.location;
        if !indices.is_empty() {
            self.location = node_location.of_parent();
        }
        let mut enclosing = self.add_element(&at, None, change.path.clone());
        for index in indices.split_last().map_or(&[][..], |(_, above)| above) {
            at = side.child(&at, *index)?;
            enclosing = self.add_element(&at, enclosing, change.path.clone());
        }
        self.location = node_location;
        if let Some(last) = indices.last() {
            at = side.child(&at, *last)?;
            if matches!(change.kind, ChangeKind::Inserted | ChangeKind::Removed)
                && place.part == Part::Element
            {
                self.add_subtree(side, at, enclosing);
                return Some(());
            }
            enclosing = self.add_element(&at, enclosing, change.path.clone());
        }
        if let Part::Attribute(name) = &place.part {
            let kind = dangerous_set::of_attribute(name, at.element, at.parent, self.location);
            let kind = kind.filter(|kind| dangerous_set::attribute_must_be_named(*kind, enclosing));
            self.add(kind, change.path.clone());
        }
        Some(())
    }

    /// Adds the dangers of the elements around a removed one as they are afterwards: their text may be another value.
    fn add_remaining_ancestors(
        &mut self,
        change: &Change,
        side: &mut DocumentIndex<'_>,
        indices: &[usize],
    ) -> Option<()> {
        let known = std::mem::take(&mut self.dangers);
        self.location = NodeLocation::Edited;
        let mut at = side.root();
        let mut enclosing = self.add_element(&at, None, change.path.clone());
        for index in indices {
            at = side.child(&at, *index)?;
            enclosing = self.add_element(&at, enclosing, change.path.clone());
        }
        let of_ancestors = std::mem::replace(&mut self.dangers, known);
        for danger in of_ancestors {
            if !self.dangers.contains(&danger) {
                self.dangers.push(danger);
            }
        }
        Some(())
    }

    /// Adds the dangers of the changed element's duplicates. Of several elements of the same name libvirt may read only
    /// one, and this one may be another after the change. `level` is the depth of the element; `indices` lead to the
    /// element, or to its parent.
    fn add_duplicates(
        &mut self,
        side: &mut DocumentIndex<'_>,
        indices: &[usize],
        level: usize,
    ) -> Option<()> {
        let mut parent = side.root();
        let mut enclosing = None;
        let mut ancestors = indices.iter().take(level.saturating_sub(1));
        loop {
            let location = self.location.of_parent();
            let kind = dangerous_set::of_element(parent.element, parent.parent, location);
            enclosing = kind
                .filter(|kind| dangerous_set::must_be_named(*kind, enclosing))
                .or(enclosing);
            let Some(index) = ancestors.next() else { break };
            parent = side.child(&parent, *index)?;
        }
        let changed_index = level.checked_sub(1).and_then(|last| indices.get(last));
        let name = self.changed_element_name();
        let parent_name = dangerous_set::local(parent.element.tag_name());
        let mut index = 0;
        while let Some(child) = side.child(&parent, index) {
            let child_name = dangerous_set::local(child.element.tag_name());
            if Some(&index) != changed_index
                && child_name == name
                && is_read_once(parent_name, &name)
            {
                self.add_subtree(side, child, enclosing);
            }
            index += 1;
        }
        Some(())
    }

    /// Adds the attributes for which libvirt takes a dangerous default because of the change, in the elements of both
    /// documents that the change is in.
    fn add_new_defaults(
        &mut self,
        change: &Change,
        place: &Place,
        before: &mut DocumentIndex<'_>,
        after: &mut DocumentIndex<'_>,
    ) -> Option<()> {
        let depth = place.before.len().max(place.after.len());
        let paths: Vec<&str> = suggested_pattern::ancestry(change, place).collect();
        let mut of_both = (before.root(), after.root());
        for (level, indices) in place.before.iter().zip(&place.after).enumerate() {
            let (index_before, index_after) = indices;
            of_both = (
                before.child(&of_both.0, *index_before)?,
                after.child(&of_both.1, *index_after)?,
            );
            let (old, new) = (of_both.0.element, of_both.1.element);
            let Some(path) = paths.get(depth - level - 1) else {
                continue;
            };
            for name in dangerous_set::new_dangerous_defaults(old, new, &Budget::unlimited()) {
                let kind = dangerous_set::of_attribute(name, new, of_both.1.parent, self.location);
                let path = format!("{path}/@{name}");
                // The removed attribute itself is there already.
                if self.dangers.iter().all(|danger| danger.path != path) {
                    self.add(kind, path);
                }
            }
        }
        Some(())
    }

    /// The name of the changed element, without prefix.
    fn changed_element_name(&self) -> String {
        let parent = suggested_pattern::parent(self.path);
        let step = &self.path[parent.len()..];
        let name = step.trim_start_matches('/').split('[').next();
        dangerous_set::local(name.unwrap_or_default()).to_owned()
    }

    fn add(&mut self, kind: Option<DangerKind>, path: String) {
        if let Some(kind) = kind.filter(|_| self.path_bytes < MAX_PATH_BYTES) {
            self.path_bytes += path.len();
            self.dangers.push(Danger { path, kind });
        }
    }

    /// Adds the element's own danger. Returns the danger that encloses its children.
    fn add_element(
        &mut self,
        at: &ElementAt<'_>,
        enclosing: Option<DangerKind>,
        path: String,
    ) -> Option<DangerKind> {
        let kind = dangerous_set::of_element(at.element, at.parent, self.location).or_else(|| {
            let is_boot = dangerous_set::is_boot_of_disk_or_os(at.element, at.parent);
            (is_boot && (self.boots_from_network_earlier)()).then_some(DangerKind::Boot)
        });
        let kind = kind.filter(|kind| dangerous_set::must_be_named(*kind, enclosing));
        self.add(kind, path);
        kind.or(enclosing)
    }

    /// Adds the dangers of an element and its content.
    fn add_subtree<'a>(
        &mut self,
        side: &mut DocumentIndex<'a>,
        top: ElementAt<'a>,
        enclosing: Option<DangerKind>,
    ) {
        let mut open = vec![];
        let mut next = Some((top, enclosing));
        while self.path_bytes < MAX_PATH_BYTES {
            if let Some((at, enclosing)) = next.take() {
                let below_top = open.iter().skip(1).map(|(at, _, _)| at);
                let below_top = below_top.chain((!open.is_empty()).then_some(&at));
                let path = below_top.fold(self.path.to_owned(), |path, at: &ElementAt<'_>| {
                    path + "/" + at.element.canonical_name()
                });
                // Only the top element is removed from a parent that stays.
                let location = match (self.location, open.is_empty()) {
                    (NodeLocation::Before, true) => NodeLocation::Removed,
                    (location, _) => location,
                };
                let outer_location = std::mem::replace(&mut self.location, location);
                let danger = self.add_element(&at, enclosing, path.clone());
                self.location = outer_location;
                if danger.is_none_or(DangerKind::acts_on_guest_alone) {
                    self.add_attributes(&at, danger, &path);
                }
                open.push((at, danger, 0));
            }
            let Some((at, danger, index)) = open.last_mut() else {
                return;
            };
            next = side.child(at, *index).map(|child| (child, *danger));
            *index += 1;
            if next.is_none() {
                open.pop();
            }
        }
    }

    fn add_attributes(&mut self, at: &ElementAt<'_>, enclosing: Option<DangerKind>, path: &str) {
        let is_new = self.location == NodeLocation::After;
        let defaults = dangerous_set::dangerous_defaults(at.element).filter(|_| is_new);
        for attribute in at.element.attribute_names().chain(defaults) {
            let kind = dangerous_set::of_attribute(attribute, at.element, at.parent, self.location);
            let kind = kind.filter(|kind| dangerous_set::attribute_must_be_named(*kind, enclosing));
            self.add(kind, format!("{path}/@{attribute}"));
        }
    }
}
