//! Whether paths permit a change.
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
//! except for security labels. What is [`Reserved`] is permitted by nothing.

mod check;
mod danger;
mod hint;
mod inspect;
mod reach;

use crate::diff::Part;
use crate::{Change, Document, PathPattern};
use check::Check;
pub use danger::{DangerKind, Reserved};
pub use inspect::Danger;
use reach::Side;

/// What patterns say to a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Permitted.
    Granted {
        /// The patterns it took, by index, ascending.
        by: Vec<usize>,
    },
    /// Not permitted.
    Refused(Refusal),
}

/// What was not permitted, and what would be needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The outermost place that nothing permits: the change's path or something inside it; the
    /// parent's for a move.
    pub path: String,
    /// Why.
    pub reason: Reason,
    /// A pattern that would permit it; none when nothing can.
    pub hint: Option<String>,
}

/// Why a change is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It is never a hook's to change.
    Reserved(Reserved),
    /// It is in the dangerous set, and no pattern names it.
    Dangerous(DangerKind),
    /// A pattern would select it, but its predicate fits several siblings or the element is only
    /// known by its position.
    Ambiguous {
        /// The pattern, by index.
        pattern: usize,
    },
    /// A child moved, and no pattern permits the parent.
    Move,
    /// No pattern selects it.
    NoPattern {
        /// The pattern that comes closest, by index, if one selects anything around it.
        nearest: Option<usize>,
    },
    /// The change was not told by a diff of these documents.
    NoPlace,
    /// The root element became another one, or more changed than can be told apart.
    Document,
}

/// Whether the patterns permit a change that `diff(before, after)` told. For many changes of one
/// diff use a [`Checker`].
pub fn permits(
    patterns: &[PathPattern],
    change: &Change,
    before: &Document,
    after: &Document,
) -> Permission {
    Checker::new(patterns, before, after).permits(change)
}

/// All that is dangerous in a change that `diff(before, after)` told: the place itself, what is
/// around it, and what comes or goes with it. For many changes of one diff use a [`Checker`].
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
    before: Side<'a>,
    after: Side<'a>,
}

impl<'a> Checker<'a> {
    /// For the changes of `diff(before, after)`.
    pub fn new(patterns: &'a [PathPattern], before: &'a Document, after: &'a Document) -> Self {
        Checker {
            patterns,
            before: Side::new(before.root()),
            after: Side::new(after.root()),
        }
    }

    /// Whether the patterns permit the change.
    pub fn permits(&mut self, change: &Change) -> Permission {
        match self.check(self.patterns, change) {
            Ok(by) => Permission::Granted { by },
            Err(mut refusal) => {
                refusal.hint = self.hint(change, &refusal);
                Permission::Refused(*refusal)
            }
        }
    }

    /// All that is dangerous in the change, permitted or not. Nothing in one that no diff told.
    pub fn dangers(&mut self, change: &Change) -> Vec<Danger> {
        let place = change.place.as_deref();
        let found = place
            .and_then(|place| inspect::dangers(change, place, &mut self.before, &mut self.after));
        found.unwrap_or_default()
    }

    fn check(
        &mut self,
        patterns: &[PathPattern],
        change: &Change,
    ) -> Result<Vec<usize>, Box<Refusal>> {
        let place = match change.place.as_deref() {
            None => return Err(refusal(change.path.clone(), Reason::NoPlace)),
            Some(place) if place.part == Part::Document => {
                return Err(refusal(change.path.clone(), Reason::Document));
            }
            Some(place) => place,
        };
        let mut check = Check::new(patterns, &mut self.before, &mut self.after);
        check.run(change, place)?;
        Ok(check.granted())
    }

    /// A pattern that gets past a refusal: tried before it is offered.
    fn hint(&mut self, change: &Change, refusal: &Refusal) -> Option<String> {
        if matches!(
            refusal.reason,
            Reason::Reserved(_) | Reason::NoPlace | Reason::Document
        ) {
            return None;
        }
        let mut tried = self.patterns.to_vec();
        for candidate in hint::candidates(&refusal.path) {
            tried.push(PathPattern::parse(&candidate).ok()?);
            match self.check(&tried, change) {
                Err(still) if still.path == refusal.path => tried.pop(),
                _ => return Some(candidate),
            };
        }
        None
    }
}

/// Who is granted a dangerous element is granted what is in it; a security label is another matter.
fn needs_its_name(kind: DangerKind, inside: Option<DangerKind>) -> bool {
    match inside {
        None => true,
        Some(inside) => kind == DangerKind::SecurityLabel && inside != kind,
    }
}

fn refusal(path: String, reason: Reason) -> Box<Refusal> {
    Box::new(Refusal {
        path,
        reason,
        hint: None,
    })
}

#[cfg(test)]
mod tests;
