//! Paths of the elements that a diff visits. A path is written out only for a change.

use super::element_keys::{Parts, Values};
use crate::Element;

/// Most paths are not longer.
const TYPICAL_PATH_BYTES: usize = 96;

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
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Before,
    After,
}

/// The pairs of elements that the diff visits or has yet to visit, each with its parent.
#[derive(Default)]
pub(super) struct ElementPaths<'a> {
    visits: Vec<Visit<'a>>,
}

struct Visit<'a> {
    parent: Option<usize>,
    /// The number of parents.
    depth: usize,
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
        let depth = parent.map_or(0, |parent| self.depth(parent) + 1);
        self.visits.push(Visit {
            parent,
            depth,
            before,
            after,
        });
        self.visits.len() - 1
    }

    /// Drops all visits added after this one. They are finished, because the diff takes the most recently added pair
    /// first.
    pub(super) fn leave(&mut self, visit: usize) {
        self.visits.truncate(visit + 1);
    }

    fn depth(&self, visit: usize) -> usize {
        self.visits.get(visit).map_or(0, |visit| visit.depth)
    }

    pub(super) fn path(&self, visit: usize, side: Side) -> String {
        let mut steps = Vec::with_capacity(self.depth(visit) + 1);
        steps.extend(self.steps(visit, side));
        let mut path = String::with_capacity(TYPICAL_PATH_BYTES);
        steps.iter().rev().for_each(|step| write(&mut path, step));
        path
    }

    /// The index of each element among its siblings, below the root. There is room for one more.
    pub(super) fn indices(&self, visit: usize, side: Side) -> Vec<usize> {
        let depth = self.depth(visit);
        let mut indices = Vec::with_capacity(depth + 1);
        indices.extend(self.steps(visit, side).take(depth).map(|step| step.index));
        indices.reverse();
        indices
    }

    /// The steps of a path, innermost first.
    fn steps(&self, visit: usize, side: Side) -> impl Iterator<Item = &PathStep<'a>> {
        let outer = move |visit: &&Visit<'a>| self.visits.get(visit.parent?);
        let visits = std::iter::successors(self.visits.get(visit), outer);
        visits.map(move |visit| match side {
            Side::Before => &visit.before,
            Side::After => &visit.after,
        })
    }

    pub(super) fn path_below(&self, parent: usize, side: Side, step: &PathStep<'_>) -> String {
        let mut path = self.path(parent, side);
        write(&mut path, step);
        path
    }
}

fn write(path: &mut String, step: &PathStep<'_>) {
    path.push('/');
    path.push_str(step.element.canonical_name());
    match &step.selector {
        Selector::Only => {}
        Selector::Nth(position) => {
            path.push('[');
            path.push_str(&position.to_string());
            path.push(']');
        }
        Selector::Key(parts, values) => {
            for (part, value) in parts.iter().zip(values.iter().flatten()) {
                let quote = if value.contains('\'') { "\"" } else { "'" };
                let texts: [&str; 7] = ["[", part, "=", quote, value, quote, "]"];
                path.extend(texts);
            }
        }
    }
}
