//! The changes of a diff as a tree in the shape of the document.

use std::collections::{BTreeMap, HashMap};

use super::ApplyError;
use crate::MAX_DEPTH;
use crate::diff::Part;
use crate::host::{Change, ChangeKind};

/// The changes of one element. Indices count its element children.
#[derive(Default)]
pub(super) struct ChangeTree<'c> {
    pub(super) attributes: Vec<&'c Change>,
    pub(super) text: Option<&'c Change>,
    pub(super) removed: BTreeMap<usize, &'c Change>,
    /// Moves, from the index before to the index after.
    pub(super) moved: BTreeMap<usize, (usize, &'c Change)>,
    /// Insertions, by the index in the document after.
    pub(super) inserted: BTreeMap<usize, &'c Change>,
    pub(super) child_trees: BTreeMap<usize, ChangeTree<'c>>,
    root: Option<&'c Change>,
}

impl<'c> ChangeTree<'c> {
    pub(super) fn collect(changes: &'c [Change]) -> Result<ChangeTree<'c>, ApplyError> {
        let mut tree = ChangeTree::default();
        for change in changes {
            tree.add(change)?;
        }
        Ok(tree)
    }

    /// The change that replaces the whole document, if there is one.
    pub(super) fn root(&self) -> Option<&'c Change> {
        self.root
    }

    /// The first change among the children, if there is one.
    pub(super) fn first_rearrangement(&self) -> Option<&'c Change> {
        let removed = self.removed.values().copied();
        let moved = self.moved.values().map(|(_, change)| *change);
        let mut all = removed.chain(moved).chain(self.inserted.values().copied());
        all.next()
    }

    /// Whether children are inserted, removed or moved.
    pub(super) fn rearranges(&self) -> bool {
        self.first_rearrangement().is_some()
    }

    /// The ranks of inserted and moved children among those of their name, by the index in the document after.
    pub(super) fn ranks(&self) -> HashMap<usize, usize> {
        let inserted = self.inserted.iter().map(|(to, change)| (*to, *change));
        let arrivals = inserted.chain(self.moved.values().copied());
        arrivals
            .filter_map(|(to, change)| Some((to, change.place.as_deref()?.rank)))
            .collect()
    }

    fn add(&mut self, change: &'c Change) -> Result<(), ApplyError> {
        let place = change.place.as_deref();
        let place = place.ok_or_else(|| ApplyError::NoPlace {
            path: change.path.clone(),
        })?;
        if place.before.len().max(place.after.len()) > MAX_DEPTH {
            let path = change.path.clone();
            return Err(ApplyError::TooDeep { path });
        }
        let parent = place.before.split_last();
        match (&place.part, change.kind) {
            (Part::Document, ChangeKind::Removed) => {}
            (Part::Document, _) => self.root = Some(change),
            (Part::Attribute(_), _) => self.tree_of(&place.before).attributes.push(change),
            (Part::Text, _) => self.tree_of(&place.before).text = Some(change),
            (Part::Element, ChangeKind::Inserted) => {
                let to = place.after.last().copied().unwrap_or_default();
                self.tree_of(&place.before).inserted.insert(to, change);
            }
            (Part::Element, ChangeKind::Removed) => {
                if let Some((from, parent)) = parent {
                    self.tree_of(parent).removed.insert(*from, change);
                }
            }
            (Part::Element, ChangeKind::Moved | ChangeKind::Edited) => {
                let to = place.after.last().copied().unwrap_or_default();
                if let Some((from, parent)) = parent {
                    self.tree_of(parent).moved.insert(*from, (to, change));
                }
            }
        }
        Ok(())
    }

    fn tree_of(&mut self, element_path: &[usize]) -> &mut ChangeTree<'c> {
        element_path.iter().fold(self, |tree, index| {
            tree.child_trees.entry(*index).or_default()
        })
    }

    /// Any change in this subtree, to name the place in an error.
    pub(super) fn any(&self) -> Option<&'c Change> {
        let own = self.attributes.first().copied().or(self.text);
        own.or_else(|| self.first_rearrangement())
            .or_else(|| self.child_trees.values().find_map(ChangeTree::any))
    }
}
