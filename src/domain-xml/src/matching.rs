//! Matching many patterns against one element after the other, from the root down.
//!
//! A check of changes walks two documents at once and asks at each element which patterns still
//! lead there: [`PatternReach`]. A pattern whose predicate does not tell an element from its siblings
//! does not lead there, and is reported as ambiguous.

use std::collections::HashMap;
use std::rc::Rc;

use crate::diff::scope::{self, Scope};
use crate::diff::siblings::Siblings;
use crate::path::{NameTest, Predicate, Step, Target};
use crate::{Element, PathPattern};

/// An element and its position in a document.
#[derive(Clone)]
pub struct ElementAt<'a> {
    /// The element.
    pub element: &'a Element,
    /// Its parent; `None` for the root.
    pub parent: Option<&'a Element>,
    /// The index among the element children of the parent.
    index: usize,
    /// The namespaces outside and inside of the element.
    around: Option<Rc<Scope>>,
    inside: Option<Rc<Scope>>,
}

/// One document. Children and siblings are looked up once, because a hostile hook can change every
/// child of a large element.
pub struct DocumentIndex<'a> {
    root: &'a Element,
    children: HashMap<*const Element, Vec<&'a Element>>,
    siblings: HashMap<*const Element, Siblings<'a>>,
    positions: HashMap<(*const Element, NameTest), Vec<usize>>,
}

impl<'a> DocumentIndex<'a> {
    /// An index of the document with this root.
    pub fn new(root: &'a Element) -> DocumentIndex<'a> {
        DocumentIndex {
            root,
            children: HashMap::new(),
            siblings: HashMap::new(),
            positions: HashMap::new(),
        }
    }

    /// The root.
    pub fn root(&self) -> ElementAt<'a> {
        ElementAt {
            element: self.root,
            parent: None,
            index: 0,
            around: None,
            inside: scope::enter(None, self.root),
        }
    }

    /// A child by its index among the element children.
    pub fn child(&mut self, parent: &ElementAt<'a>, index: usize) -> Option<ElementAt<'a>> {
        let children = self.children(parent.element);
        let element = *children.get(index)?;
        Some(ElementAt {
            element,
            parent: Some(parent.element),
            index,
            around: parent.inside.clone(),
            inside: scope::enter(parent.inside.as_ref(), element),
        })
    }

    fn children(&mut self, parent: &'a Element) -> &[&'a Element] {
        let family = self.children.entry(std::ptr::from_ref(parent));
        family.or_insert_with(|| parent.children().collect())
    }

    /// Whether predicates leave open which element this is. `asked` are the parts they ask for.
    fn is_ambiguous(&mut self, at: &ElementAt<'a>, asked: &[String]) -> bool {
        let Some(parent) = at.parent else {
            return false;
        };
        let family = self.siblings.entry(std::ptr::from_ref(parent));
        let family = family.or_insert_with(|| Siblings::of(parent, at.around.as_ref()));
        family.is_ambiguous(at.index, |parts| {
            parts.iter().all(|part| asked.iter().any(|a| a == part))
        })
    }

    /// The place among the siblings that the name accepts, from 1.
    fn position(&mut self, at: &ElementAt<'a>, name: &NameTest) -> usize {
        let Some(parent) = at.parent else {
            return 1;
        };
        let family = (std::ptr::from_ref(parent), name.clone());
        let positions = self.positions.entry(family).or_insert_with(|| {
            let count = |count: &mut usize, child: &Element| {
                *count += usize::from(name.accepts(child.canonical_name()));
                Some(*count)
            };
            parent.children().scan(0, count).collect()
        });
        positions.get(at.index).copied().unwrap_or_default()
    }
}

/// The progress of each pattern at an element: one bit for each step that may be next.
#[derive(Clone)]
pub struct PatternReach(Vec<u64>);

impl PatternReach {
    /// The state before the root: a pattern that is not absolute begins inside it.
    pub fn start(patterns: &[PathPattern]) -> PatternReach {
        PatternReach(patterns.iter().map(|pattern| pattern.close(1)).collect())
    }

    /// The state where no pattern leads.
    pub fn nowhere(patterns: &[PathPattern]) -> PatternReach {
        PatternReach(vec![0; patterns.len()])
    }

    /// Enters an element. With `explicit`, only a step with the element's exact name leads there.
    /// Also returns the first pattern that an ambiguous predicate stopped.
    pub fn enter<'a>(
        &self,
        patterns: &[PathPattern],
        side: &mut DocumentIndex<'a>,
        at: &ElementAt<'a>,
        explicit: bool,
    ) -> (PatternReach, Option<usize>) {
        let mut stopped = None;
        let advanced = self.0.iter().zip(patterns).enumerate();
        let states = advanced.map(|(n, (state, pattern))| {
            if at.parent.is_none() && !pattern.absolute {
                return *state;
            }
            let (next, ambiguous) = advance(pattern, *state, side, at, explicit);
            if ambiguous && stopped.is_none() {
                stopped = Some(n);
            }
            next
        });
        (PatternReach(states.collect()), stopped)
    }

    /// The patterns that lead to the element in both documents.
    pub fn and(&self, other: &PatternReach) -> PatternReach {
        PatternReach(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    /// Whether a pattern, by index, may still lead further.
    pub fn is_alive(&self, pattern: usize) -> bool {
        self.0.get(pattern).is_some_and(|state| *state != 0)
    }

    /// The first pattern that permits the element itself: its text, that it is there, and the
    /// order of its children.
    pub fn element(&self, patterns: &[PathPattern]) -> Option<usize> {
        self.ends(patterns)
            .find(|(_, pattern)| pattern.target == Target::Element)
            .map(|(n, _)| n)
    }

    /// The first pattern that permits this attribute.
    pub fn attribute(&self, patterns: &[PathPattern], name: &str, explicit: bool) -> Option<usize> {
        let permits = |pattern: &PathPattern| match &pattern.target {
            Target::Attribute(NameTest::Exact(exact)) => exact == name,
            Target::Attribute(test) => !explicit && test.accepts(name),
            Target::Element => !explicit && pattern.steps.last() == Some(&Step::Descend),
        };
        self.ends(patterns)
            .find(|(_, pattern)| permits(pattern))
            .map(|(n, _)| n)
    }

    /// The patterns whose last step is done.
    fn ends<'p>(
        &self,
        patterns: &'p [PathPattern],
    ) -> impl Iterator<Item = (usize, &'p PathPattern)> {
        let states = self.0.iter().zip(patterns).enumerate();
        states
            .filter(|(_, (state, pattern))| **state >> pattern.steps.len() & 1 == 1)
            .map(|(n, (_, pattern))| (n, pattern))
    }
}

/// The state inside the element, and whether an ambiguous predicate stood in the way.
fn advance<'a>(
    pattern: &PathPattern,
    state: u64,
    side: &mut DocumentIndex<'a>,
    at: &ElementAt<'a>,
    explicit: bool,
) -> (u64, bool) {
    let mut next = 0;
    let mut ambiguous = false;
    let steps = pattern.steps.iter().enumerate();
    for (n, step) in steps.filter(|(n, _)| state >> n & 1 == 1) {
        match step {
            Step::Descend => next |= u64::from(!explicit) << n,
            Step::Child { name, predicates } => {
                let named = matches!(name, NameTest::Exact(_)) || !explicit;
                if !named || !name.accepts(at.element.canonical_name()) {
                    continue;
                }
                let counts = predicates.iter().any(Predicate::is_position);
                let position = if counts { side.position(at, name) } else { 0 };
                if !predicates.iter().all(|p| p.holds(at.element, position)) {
                    continue;
                }
                let asked: Vec<String> = predicates.iter().filter_map(asked).collect();
                if !asked.is_empty() && side.is_ambiguous(at, &asked) {
                    ambiguous = true;
                    continue;
                }
                next |= 1 << (n + 1);
            }
        }
    }
    (pattern.close(next), ambiguous)
}

/// What a predicate asks for, as identities are written: `target/@dev`. A position asks nothing.
fn asked(predicate: &Predicate) -> Option<String> {
    let Predicate::Holds { names, target, .. } = predicate else {
        return None;
    };
    let mut parts = names.clone();
    if let Target::Attribute(NameTest::Exact(name)) = target {
        parts.push(format!("@{name}"));
    }
    Some(parts.join("/"))
}
