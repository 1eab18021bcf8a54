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
//! needs a pattern for the parent. Only a new parent that is nothing but a container ([`containers`]) needs no pattern
//! besides that of its content. A pattern with a condition permits nodes of the document after whose value meets it, and
//! no removals, which leave no value. Predicates must hold in the document before for edited and removed
//! nodes, in the document after for edited and inserted nodes, and in both documents for their
//! ancestors. Under a predicate, an element that shares its identity with a sibling is refused.
//!
//! The *dangerous set* ([`DangerKind`]) is matched by no wildcard: the last step of the pattern must be
//! the name of the dangerous element or attribute. Below a dangerous element wildcards match again,
//! except for security labels and programs. No pattern permits a [`ReservedNode`].

mod ancestor_pattern_matches;
mod change_check;
mod containers;
mod danger_search;
mod dangerous_set;
mod duplicate_elements_check;
mod element_match_state;
#[cfg(test)]
pub(crate) mod libvirt_schema_for_tests;
mod read_once_elements;
mod refusal;
mod reserved_nodes;
mod suggested_pattern;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use domain_xml::host::{Budget, Change, Part};
use domain_xml::host::{DocumentIndex, PatternSet};
use domain_xml::{Document, PathPattern};

use crate::ConditionedPath;
use change_check::ChangeCheck;
pub use danger_search::Danger;
pub use dangerous_set::{DangerKind, REVIEWED_LIBVIRT, UnknownDanger, unreviewed_libvirt};
pub(crate) use dangerous_set::{depends_on_attribute, local};
use element_match_state::ElementMatchState;
pub(crate) use read_once_elements::duplicates;
use refusal::refusal;
pub use refusal::{Refusal, RefusalReason};
pub use reserved_nodes::ReservedNode;
pub(crate) use reserved_nodes::{is_kubevirts, namespace_bytes};

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

#[cfg(test)]
mod tests;
