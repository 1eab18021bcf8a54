//! Selects elements by a path: one walk over the tree, with the path's steps as bits of a state.

use super::{NameTest, PathError, PathErrorKind, PathPattern, Predicate, Step};
use crate::Element;

/// The position of an element: node indices, level by level from the start of the search.
pub(super) type NodeIndices = Vec<usize>;

impl Element {
    /// The first element that the path selects. A path that ends in an attribute selects the
    /// elements that carry it. An absolute path begins with this element itself; one that begins with another name is
    /// an error, since it selects nothing in any document.
    ///
    /// # Errors
    /// If the path is invalid, or absolute and does not begin with this element.
    pub fn find(&self, path: &str) -> Result<Option<&Element>, PathError> {
        let pattern = PathPattern::for_element(path, self)?;
        Ok(pattern
            .locate(self, 1)
            .first()
            .and_then(|indices| self.at(indices)))
    }

    /// The first element that the path selects, to edit.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn find_mut(&mut self, path: &str) -> Result<Option<&mut Element>, PathError> {
        let pattern = PathPattern::for_element(path, self)?;
        let indices = pattern.locate(self, 1).into_iter().next();
        Ok(indices.and_then(|indices| self.at_mut(&indices)))
    }

    /// All elements that the path selects, in document order.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn find_all(&self, path: &str) -> Result<Vec<&Element>, PathError> {
        Ok(PathPattern::for_element(path, self)?.find_all(self))
    }

    /// The first value that the path selects: an attribute's, or an element's text.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn value(&self, path: &str) -> Result<Option<String>, PathError> {
        let pattern = PathPattern::parse(path)?;
        Ok(self
            .find(path)?
            .and_then(|element| pattern.target.value_of(element)))
    }

    /// Every value that the path selects, in document order; one per element.
    ///
    /// # Errors
    /// As [`Element::find`].
    pub fn values(&self, path: &str) -> Result<Vec<String>, PathError> {
        let pattern = PathPattern::for_element(path, self)?;
        Ok(pattern
            .find_all(self)
            .into_iter()
            .filter_map(|element| pattern.target.value_of(element))
            .collect())
    }

    pub(super) fn at(&self, indices: &[usize]) -> Option<&Element> {
        indices.iter().try_fold(self, |element, index| {
            element.nodes().get(*index)?.element()
        })
    }

    pub(super) fn at_mut(&mut self, indices: &[usize]) -> Option<&mut Element> {
        indices.iter().try_fold(self, |element, index| {
            element.nodes_mut().get_mut(*index)?.element_mut()
        })
    }
}

impl PathPattern {
    /// Reads a path that is to select from this element.
    pub(super) fn for_element(path: &str, element: &Element) -> Result<PathPattern, PathError> {
        let pattern = PathPattern::parse(path)?;
        pattern.check_root(element)?;
        Ok(pattern)
    }

    /// Refuses an absolute path that begins with another element.
    pub(super) fn check_root(&self, element: &Element) -> Result<(), PathError> {
        match self.steps.first() {
            Some(Step::Child {
                name: NameTest::Exact(name),
                ..
            }) if self.absolute && !element.is(name) => {
                let root = element.canonical_name().to_owned();
                Err(self.error(PathErrorKind::OtherRoot(root)))
            }
            _ => Ok(()),
        }
    }

    /// All elements that the path selects from `element`, in document order.
    pub fn find_all<'a>(&self, element: &'a Element) -> Vec<&'a Element> {
        self.locate(element, usize::MAX)
            .iter()
            .filter_map(|indices| element.at(indices))
            .collect()
    }

    /// The positions of the first `limit` selected elements.
    pub(super) fn locate(&self, origin: &Element, limit: usize) -> Vec<NodeIndices> {
        let mut found = Vec::new();
        let mut state = self.close(1);
        if self.absolute {
            state = self.advance(state, origin, &mut self.counters());
        }
        if self.accepts(state, origin) {
            found.push(Vec::new());
        }
        let mut walk = vec![Level::new(origin, state, self.counters())];
        while let Some(level) = walk.last_mut() {
            if found.len() >= limit || level.state == 0 {
                walk.pop();
                continue;
            }
            let Some((index, child)) = level.next_child() else {
                walk.pop();
                continue;
            };
            let state = self.advance(level.state, child, &mut level.counters);
            level.index = index;
            if self.accepts(state, child) {
                found.push(walk.iter().map(|level| level.index).collect());
            }
            walk.push(Level::new(child, state, self.counters()));
        }
        found
    }

    fn accepts(&self, state: u64, element: &Element) -> bool {
        state & (1 << self.steps.len()) != 0 && self.target.exists_on(element)
    }

    /// The number of siblings with each step's name so far; empty if no step has a position.
    fn counters(&self) -> Vec<usize> {
        let asks = self.steps.iter().any(|step| match step {
            Step::Descend => false,
            Step::Child { predicates, .. } => predicates.iter().any(Predicate::is_position),
        });
        vec![0; if asks { self.steps.len() } else { 0 }]
    }

    /// Adds the states after `**`, which also matches no level.
    pub(crate) fn close(&self, state: u64) -> u64 {
        let descends = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| **step == Step::Descend);
        descends.fold(state, |state, (at, _)| {
            state | ((state >> at) & 1) << (at + 1)
        })
    }

    /// The state inside `child`, from the state around it.
    fn advance(&self, state: u64, child: &Element, counters: &mut [usize]) -> u64 {
        let mut next = 0;
        let steps = self.steps.iter().enumerate();
        for (at, step) in steps.filter(|(at, _)| state >> at & 1 == 1) {
            match step {
                Step::Descend => next |= 1 << at,
                Step::Child { name, predicates } if name.accepts(child.canonical_name()) => {
                    let position = counters.get_mut(at).map_or(0, |count| {
                        *count += 1;
                        *count
                    });
                    let holds = predicates
                        .iter()
                        .all(|predicate| predicate.holds(child, position));
                    next |= u64::from(holds) << (at + 1);
                }
                Step::Child { .. } => {}
            }
        }
        self.close(next)
    }
}

/// An element whose children are being walked.
struct Level<'a> {
    element: &'a Element,
    state: u64,
    next: usize,
    /// Node index of the current child.
    index: usize,
    counters: Vec<usize>,
}

impl<'a> Level<'a> {
    fn new(element: &'a Element, state: u64, counters: Vec<usize>) -> Self {
        Level {
            element,
            state,
            next: 0,
            index: 0,
            counters,
        }
    }

    fn next_child(&mut self) -> Option<(usize, &'a Element)> {
        let rest = self.element.nodes().get(self.next..)?;
        let (offset, child) = rest
            .iter()
            .enumerate()
            .find_map(|(n, node)| Some((n, node.element()?)))?;
        let index = self.next + offset;
        self.next = index + 1;
        Some((index, child))
    }
}
