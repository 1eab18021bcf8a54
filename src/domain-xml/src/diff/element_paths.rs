//! Paths of the elements that a diff visits. A path is written out only for a change.

use super::key::{Parts, Values};
use crate::Element;

/// One step of a path, below a parent.
pub(super) struct PathStep<'a> {
    pub(super) element: &'a Element,
    /// Index among all child elements of the parent.
    pub(super) index: usize,
    pub(super) selector: Selector<'a>,
}

/// How a step selects its element among the siblings of its name.
pub(super) enum Selector<'a> {
    Only,
    Key(Parts, Values<'a>),
    Nth(usize),
}

/// The document of a path, since keys may differ between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// All pairs of elements that the diff visits, each with its parent.
#[derive(Default)]
pub(super) struct ElementPaths<'a> {
    visits: Vec<Visit<'a>>,
}

struct Visit<'a> {
    parent: Option<usize>,
    before: PathStep<'a>,
    after: PathStep<'a>,
}

impl<'a> ElementPaths<'a> {
    pub(super) fn root(&mut self, before: &'a Element, after: &'a Element) -> usize {
        let only = |element| PathStep {
            element,
            index: 0,
            selector: Selector::Only,
        };
        self.add(None, only(before), only(after))
    }

    pub(super) fn below(
        &mut self,
        parent: usize,
        before: PathStep<'a>,
        after: PathStep<'a>,
    ) -> usize {
        self.add(Some(parent), before, after)
    }

    fn add(&mut self, parent: Option<usize>, before: PathStep<'a>, after: PathStep<'a>) -> usize {
        self.visits.push(Visit {
            parent,
            before,
            after,
        });
        self.visits.len() - 1
    }

    pub(super) fn path(&self, visit: usize, side: Side) -> String {
        let steps = self.steps(visit, side);
        steps
            .iter()
            .rev()
            .fold(String::new(), |path, step| write(path, step))
    }

    /// The index of each element among its siblings, below the root.
    pub(super) fn indices(&self, visit: usize, side: Side) -> Vec<usize> {
        let steps = self.steps(visit, side);
        steps.iter().rev().skip(1).map(|step| step.index).collect()
    }

    /// The steps of a path, innermost first.
    fn steps(&self, visit: usize, side: Side) -> Vec<&PathStep<'a>> {
        let mut steps = Vec::new();
        let mut at = Some(visit);
        while let Some(visit) = at.and_then(|at| self.visits.get(at)) {
            steps.push(if side == Side::Before {
                &visit.before
            } else {
                &visit.after
            });
            at = visit.parent;
        }
        steps
    }

    pub(super) fn path_below(&self, parent: usize, side: Side, step: &PathStep<'_>) -> String {
        write(self.path(parent, side), step)
    }
}

fn write(mut path: String, step: &PathStep<'_>) -> String {
    path.push('/');
    path.push_str(step.element.canonical_name());
    match &step.selector {
        Selector::Only => {}
        Selector::Nth(position) => path.push_str(&format!("[{position}]")),
        Selector::Key(parts, values) => {
            for (part, value) in parts.iter().zip(values.iter().flatten()) {
                let quote = if value.contains('\'') { '"' } else { '\'' };
                path.push_str(&format!("[{part}={quote}{value}{quote}]"));
            }
        }
    }
    path
}
