//! Whether path patterns permit a change.
//!
//! A pattern permits what it selects and nothing beside it:
//!
//! - a pattern that ends in an attribute permits setting, changing and removing that attribute;
//! - one that ends in an element permits the element to come and go, its own text, and the order
//!   of its children; its attributes and children need patterns of their own;
//! - one that ends in `**` permits all that and everything below, attributes included.
//!
//! So an element that comes or goes with children needs a pattern for each of them, and a move
//! needs one for the parent. Predicates must hold in the document before for what is edited or
//! removed, in the document after for what is edited or inserted, and in both for whatever stands
//! around it. Under a predicate, an element that shares its identity with a sibling is refused.
//!
//! The *dangerous set* ([`DangerKind`]) is matched by no wildcard: the last step to a dangerous
//! element or attribute must be its very name. Below a dangerous element wildcards count again,
//! except for security labels. No pattern permits a [`ReservedNode`].

mod check_one_change;
mod dangerous_set;
mod dangers_of_one_change;
#[cfg(test)]
pub(crate) mod libvirt_schema_reader;
mod read_once_elements;
mod refusal;
mod reserved_nodes;
mod suggested_pattern;

use std::collections::BTreeSet;
use std::rc::Rc;

use domain_xml::matching::{DocumentIndex, PatternSet};
use domain_xml::{Budget, Change, Document, Part, PathPattern};

use check_one_change::{Check, Spot};
pub use dangerous_set::{DangerKind, REVIEWED_LIBVIRT, UnknownDanger, unreviewed_libvirt};
pub use dangers_of_one_change::Danger;
pub(crate) use read_once_elements::first_twin;
use refusal::refusal;
pub use refusal::{Refusal, RefusalReason};
pub use reserved_nodes::ReservedNode;
pub(crate) use reserved_nodes::{is_kubevirts, namespace_bytes};

/// Whether patterns permit a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Permitted.
    Granted {
        /// The indices of the patterns that were needed, ascending.
        by: Vec<usize>,
    },
    /// Not permitted.
    Refused(Refusal),
}

/// Whether the patterns permit a change that `diff(before, after)` found. For many changes of one
/// diff use a [`Checker`].
pub fn permits(
    patterns: &[PathPattern],
    change: &Change,
    before: &Document,
    after: &Document,
) -> Permission {
    Checker::new(patterns, before, after).permits(change)
}

/// All dangerous nodes of a change that `diff(before, after)` found: the node itself, its ancestors,
/// and what is inserted or removed with it. For many changes of one diff use a [`Checker`].
pub fn dangers(change: &Change, before: &Document, after: &Document) -> Vec<Danger> {
    Checker::new(&[], before, after).dangers(change)
}

/// The outermost kind of danger in a change, as [`dangers`] finds it.
pub fn dangerous(change: &Change, before: &Document, after: &Document) -> Option<DangerKind> {
    let found = dangers(change, before, after);
    found.first().map(|danger| danger.kind)
}

/// [`permits`] for all changes of one diff.
pub struct Checker<'a> {
    patterns: &'a [PathPattern],
    set: PatternSet,
    before: DocumentIndex<'a>,
    after: DocumentIndex<'a>,
    way: Vec<Spot<'a>>,
    budget: Rc<Budget<'a>>,
    kinds: Vec<DangerKind>,
}

impl<'a> Checker<'a> {
    /// For the changes of `diff(before, after)`.
    pub fn new(patterns: &'a [PathPattern], before: &'a Document, after: &'a Document) -> Self {
        Self::within(patterns, before, after, Rc::new(Budget::unlimited()))
    }

    /// As [`Self::new`], within a budget. Once it is exhausted, every change is refused as unchecked.
    pub fn within(
        patterns: &'a [PathPattern],
        before: &'a Document,
        after: &'a Document,
        budget: Rc<Budget<'a>>,
    ) -> Self {
        Checker {
            patterns,
            set: PatternSet::new(patterns),
            before: DocumentIndex::new(before.root()),
            after: DocumentIndex::new(after.root()),
            way: Vec::new(),
            budget,
            kinds: Vec::new(),
        }
    }

    /// Also grants these classes of the dangerous set, wherever they are.
    #[must_use]
    pub fn granting(self, kinds: &[DangerKind]) -> Self {
        Checker {
            kinds: kinds.to_vec(),
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

    /// The classes of the dangerous set that names in the document after belong to, whatever their values; with
    /// `any_value`, also those of which only some values are dangerous.
    pub(crate) fn kinds_of_names(&mut self, any_value: bool) -> Vec<DangerKind> {
        dangers_of_one_change::kinds_of_names(&mut self.after, any_value)
    }

    /// All dangerous nodes of the change, permitted or not. None for a change that no diff found.
    pub fn dangers(&mut self, change: &Change) -> Vec<Danger> {
        let place = change.place();
        let found = place.and_then(|place| {
            dangers_of_one_change::dangers(change, place, &mut self.before, &mut self.after)
        });
        found.unwrap_or_default()
    }

    /// Checks a change against other patterns than the checker's own, if there are any.
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
        let way = match others {
            Some(_) => Vec::new(),
            None => std::mem::take(&mut self.way),
        };
        let mut check = Check {
            set: others.unwrap_or(&self.set),
            kinds: &self.kinds,
            before: &mut self.before,
            after: &mut self.after,
            way,
            budget: &self.budget,
            granted: BTreeSet::new(),
        };
        let checked = check.run(change, place);
        let Check { way, granted, .. } = check;
        if others.is_none() {
            self.way = way;
        }
        checked.map(|()| granted.into_iter().collect())
    }

    /// A pattern that would permit the whole change, or else at least the refused node; verified before it is returned.
    fn suggested_pattern(&mut self, change: &Change, refusal: &Refusal) -> Option<String> {
        if matches!(
            refusal.reason,
            RefusalReason::Reserved(_)
                | RefusalReason::NotInDiff
                | RefusalReason::DocumentReplaced
                | RefusalReason::CheckBudgetExhausted
        ) {
            return None;
        }
        let mut partial = Vec::new();
        for candidate in suggested_pattern::candidates(&refusal.path, &change.path) {
            let mut tried = self.patterns.to_vec();
            tried.push(PathPattern::parse(&candidate).ok()?);
            match self.check(Some(&PatternSet::new(&tried)), change) {
                Ok(_) => return Some(candidate),
                Err(still) if still.path == refusal.path => {}
                Err(_) => partial.push(candidate),
            }
        }
        // An element that comes or goes is one wish with what is in it, and the next refusal names what is dangerous there.
        let whole = partial.iter().position(|one| one.ends_with("/**"));
        let best = whole.unwrap_or(0);
        (best < partial.len()).then(|| partial.swap_remove(best))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
