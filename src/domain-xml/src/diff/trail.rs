//! Where the walk is, as a path that is written out only when there is something to tell.

use std::borrow::Cow;

use super::key::Parts;
use crate::Element;

/// One step below a parent.
pub(super) struct Within<'a> {
    pub(super) element: &'a Element,
    pub(super) place: Place<'a>,
}

/// How a step picks its element among the siblings of its name.
pub(super) enum Place<'a> {
    Only,
    Key(Parts, Vec<Cow<'a, str>>),
    Nth(usize),
}

/// All places that were entered; each knows its parent.
#[derive(Default)]
pub(super) struct Trails<'a> {
    entered: Vec<(Option<usize>, Within<'a>)>,
}

impl<'a> Trails<'a> {
    pub(super) fn root(&mut self, element: &'a Element) -> usize {
        self.enter(
            None,
            Within {
                element,
                place: Place::Only,
            },
        )
    }

    pub(super) fn below(&mut self, parent: usize, step: Within<'a>) -> usize {
        self.enter(Some(parent), step)
    }

    fn enter(&mut self, parent: Option<usize>, step: Within<'a>) -> usize {
        self.entered.push((parent, step));
        self.entered.len() - 1
    }

    pub(super) fn path(&self, trail: usize) -> String {
        let mut steps = Vec::new();
        let mut at = Some(trail);
        while let Some((parent, step)) = at.and_then(|at| self.entered.get(at)) {
            steps.push(step);
            at = *parent;
        }
        steps
            .iter()
            .rev()
            .fold(String::new(), |path, step| write(path, step))
    }

    pub(super) fn path_below(&self, parent: usize, step: &Within<'_>) -> String {
        write(self.path(parent), step)
    }
}

fn write(mut path: String, step: &Within<'_>) -> String {
    path.push('/');
    path.push_str(step.element.canonical_name());
    match &step.place {
        Place::Only => {}
        Place::Nth(position) => path.push_str(&format!("[{position}]")),
        Place::Key(parts, values) => {
            for (part, value) in parts.iter().zip(values) {
                let quote = if value.contains('\'') { '"' } else { '\'' };
                path.push_str(&format!("[{part}={quote}{value}{quote}]"));
            }
        }
    }
    path
}
