//! Where the walk is, as a path that is written out only when there is something to tell.

use super::key::{Parts, Values};
use crate::Element;

/// One step below a parent.
pub(super) struct Within<'a> {
    pub(super) element: &'a Element,
    /// Among all child elements of the parent.
    pub(super) index: usize,
    pub(super) place: Place<'a>,
}

/// How a step picks its element among the siblings of its name.
pub(super) enum Place<'a> {
    Only,
    Key(Parts, Values<'a>),
    Nth(usize),
}

/// The document that a path is for: keys may differ between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// All places that were entered; each knows its parent.
#[derive(Default)]
pub(super) struct Trails<'a> {
    entered: Vec<Entered<'a>>,
}

struct Entered<'a> {
    parent: Option<usize>,
    before: Within<'a>,
    after: Within<'a>,
}

impl<'a> Trails<'a> {
    pub(super) fn root(&mut self, before: &'a Element, after: &'a Element) -> usize {
        let only = |element| Within {
            element,
            index: 0,
            place: Place::Only,
        };
        self.enter(None, only(before), only(after))
    }

    pub(super) fn below(&mut self, parent: usize, before: Within<'a>, after: Within<'a>) -> usize {
        self.enter(Some(parent), before, after)
    }

    fn enter(&mut self, parent: Option<usize>, before: Within<'a>, after: Within<'a>) -> usize {
        self.entered.push(Entered {
            parent,
            before,
            after,
        });
        self.entered.len() - 1
    }

    pub(super) fn path(&self, trail: usize, side: Side) -> String {
        let steps = self.steps(trail, side);
        steps
            .iter()
            .rev()
            .fold(String::new(), |path, step| write(path, step))
    }

    /// The index of each element among its siblings, below the root.
    pub(super) fn indices(&self, trail: usize, side: Side) -> Vec<usize> {
        let steps = self.steps(trail, side);
        steps.iter().rev().skip(1).map(|step| step.index).collect()
    }

    /// Innermost first.
    fn steps(&self, trail: usize, side: Side) -> Vec<&Within<'a>> {
        let mut steps = Vec::new();
        let mut at = Some(trail);
        while let Some(entered) = at.and_then(|at| self.entered.get(at)) {
            steps.push(if side == Side::Before {
                &entered.before
            } else {
                &entered.after
            });
            at = entered.parent;
        }
        steps
    }

    pub(super) fn path_below(&self, parent: usize, side: Side, step: &Within<'_>) -> String {
        write(self.path(parent, side), step)
    }
}

fn write(mut path: String, step: &Within<'_>) -> String {
    path.push('/');
    path.push_str(step.element.canonical_name());
    match &step.place {
        Place::Only => {}
        Place::Nth(position) => path.push_str(&format!("[{position}]")),
        Place::Key(parts, values) => {
            for (part, value) in parts.iter().zip(values.iter().flatten()) {
                let quote = if value.contains('\'') { '"' } else { '\'' };
                path.push_str(&format!("[{part}={quote}{value}{quote}]"));
            }
        }
    }
    path
}
