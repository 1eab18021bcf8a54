//! Compares the children of an element in both documents: which are new, removed, moved, or in both.

use super::element_paths::Side;
use super::sibling_index::SiblingIndex;
use super::tree_walk::{Differ, Pair, Work, inserted, removed};
use super::{Change, ChangeKind, Part, Place};
use super::{child_pairing, moved_children, namespace_scope, subtree_equality};

impl<'a> Differ<'a, '_> {
    /// The place of a child; the index is `None` for a document without the child.
    fn place_below(&self, visit: usize, old: Option<usize>, new: Option<usize>) -> Box<Place> {
        let mut place = self.place(visit, Part::Element);
        place.before.extend(old);
        place.after.extend(new);
        Box::new(place)
    }

    pub(super) fn children(&mut self, pair: &Pair<'a>, work: &mut Vec<Work<'a>>) {
        let before = SiblingIndex::new(pair.before, pair.scopes.0.as_ref());
        let after = SiblingIndex::new(pair.after, pair.scopes.1.as_ref());
        self.budget
            .spend((before.list.len() + after.list.len()) as u64);
        let partner = child_pairing::pair(&before, &after, pair.same_namespaces, self.budget);
        let moved = moved_children::moved_within_groups(before.name_groups(), &partner);
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
