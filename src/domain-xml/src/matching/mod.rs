//! Matching many patterns against one element after the other, from the root down.
//!
//! A check of changes walks two documents at once and asks at each element which patterns still
//! lead there: [`PatternReach`]. A pattern whose predicate does not tell an element from its siblings
//! does not lead there, and is reported as ambiguous.
//!
//! The work at an element grows with the element's size plus the number of patterns that lead to it, not with the
//! product: predicates of all patterns are tested together.

mod index;
mod predicates;

use std::collections::HashMap;

use crate::diff::key::Parts;
use crate::path::{NameTest, Predicate, Step, Target};
use crate::{Budget, PathPattern};
use index::Ambiguity;
pub use index::{DocumentIndex, ElementAt};
use predicates::{Conditions, Holding};

/// Patterns, prepared to be matched together.
pub struct PatternSet {
    patterns: Vec<PreparedPattern>,
    conditions: Conditions,
    /// The number of each part that a predicate asks for: `target/@dev`.
    parts: HashMap<String, usize>,
}

struct PreparedPattern {
    pattern: PathPattern,
    steps: Vec<PreparedStep>,
}

/// The predicates of a step.
#[derive(Default)]
struct PreparedStep {
    positions: Vec<usize>,
    /// Conditions, by number.
    conditions: Vec<usize>,
    /// The parts that they ask for, by number.
    asked: Vec<usize>,
}

/// The progress of each pattern at an element: one bit for each step that may be next.
#[derive(Clone)]
pub struct PatternReach {
    states: Vec<u64>,
    /// The patterns whose last step is done, ascending.
    ends: Vec<usize>,
}

impl PatternSet {
    /// Prepares patterns.
    pub fn new(patterns: &[PathPattern]) -> PatternSet {
        let mut set = PatternSet {
            patterns: Vec::with_capacity(patterns.len()),
            conditions: Conditions::default(),
            parts: HashMap::new(),
        };
        for pattern in patterns {
            let steps = pattern.steps.iter().map(|step| set.prepare(step)).collect();
            set.patterns.push(PreparedPattern {
                pattern: pattern.clone(),
                steps,
            });
        }
        set
    }

    fn prepare(&mut self, step: &Step) -> PreparedStep {
        let mut prepared = PreparedStep::default();
        let Step::Child { predicates, .. } = step else {
            return prepared;
        };
        for predicate in predicates {
            match predicate {
                Predicate::Position(position) => prepared.positions.push(*position),
                Predicate::Holds {
                    names,
                    target,
                    value,
                } => {
                    let condition = self.conditions.add(names, target, value.as_deref());
                    prepared.conditions.push(condition);
                    let next = self.parts.len();
                    let part = self.parts.entry(part(names, target)).or_insert(next);
                    prepared.asked.push(*part);
                }
            }
        }
        prepared
    }

    /// The number of patterns.
    pub fn len(&self) -> usize {
        self.patterns.len()
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The numbers of keys' parts. A key with a part that no predicate asks for is left out.
    fn asked_keys(&self, keys: &[Parts]) -> Vec<Vec<usize>> {
        let numbered = |parts: &Parts| -> Option<Vec<usize>> {
            let numbers = parts.iter().map(|part| self.parts.get(*part).copied());
            numbers.collect()
        };
        keys.iter().filter_map(numbered).collect()
    }
}

/// What a predicate asks for, as keys are written: `target/@dev`.
fn part(names: &[String], target: &Target) -> String {
    let mut parts = names.to_vec();
    if let Target::Attribute(NameTest::Exact(name)) = target {
        parts.push(format!("@{name}"));
    }
    parts.join("/")
}

impl PatternReach {
    /// The state before the root: a pattern that is not absolute begins inside it.
    pub fn start(set: &PatternSet) -> PatternReach {
        let start = |prepared: &PreparedPattern| prepared.pattern.close(1);
        PatternReach::of(set, set.patterns.iter().map(start).collect())
    }

    /// The state where no pattern leads.
    pub fn nowhere(set: &PatternSet) -> PatternReach {
        PatternReach::of(set, vec![0; set.len()])
    }

    fn of(set: &PatternSet, states: Vec<u64>) -> PatternReach {
        let ended = |(state, prepared): (&u64, &PreparedPattern)| {
            *state != 0 && *state >> prepared.steps.len() & 1 == 1
        };
        let all = states.iter().zip(&set.patterns).enumerate();
        let ends = all.filter_map(|(n, one)| ended(one).then_some(n)).collect();
        PatternReach { states, ends }
    }

    /// Enters an element. With `explicit`, only a step with the element's exact name leads there.
    /// Also returns the first pattern that an ambiguous predicate stopped.
    pub fn enter<'a>(
        &self,
        set: &PatternSet,
        side: &mut DocumentIndex<'a>,
        at: &ElementAt<'a>,
        explicit: bool,
        budget: &Budget<'_>,
    ) -> (PatternReach, Option<usize>) {
        budget.spend(1);
        let mut entry = Entry {
            set,
            side,
            at,
            name: at.element.canonical_name(),
            explicit,
            holding: None,
            ambiguity: None,
            budget,
        };
        let mut stopped = None;
        let mut states = Vec::with_capacity(self.states.len());
        for (n, (state, pattern)) in self.states.iter().zip(&set.patterns).enumerate() {
            if *state == 0 || (at.parent.is_none() && !pattern.pattern.absolute) {
                states.push(*state);
                continue;
            }
            let (next, ambiguous) = entry.advance(pattern, *state);
            if ambiguous && stopped.is_none() {
                stopped = Some(n);
            }
            states.push(next);
        }
        (PatternReach::of(set, states), stopped)
    }

    /// The patterns that lead to the element in both documents.
    pub fn and(&self, set: &PatternSet, other: &PatternReach) -> PatternReach {
        let both = self.states.iter().zip(&other.states);
        PatternReach::of(set, both.map(|(a, b)| a & b).collect())
    }

    /// The first pattern that may still lead further.
    pub fn first_alive(&self) -> Option<usize> {
        self.states.iter().position(|state| *state != 0)
    }

    /// The first pattern that permits the element itself: its text, that it is there, and the
    /// order of its children.
    pub fn element(&self, set: &PatternSet) -> Option<usize> {
        let mut ends = self.ends.iter().copied();
        ends.find(|n| set.patterns[*n].pattern.target == Target::Element)
    }

    /// The first pattern that permits this attribute.
    pub fn attribute(&self, set: &PatternSet, name: &str, explicit: bool) -> Option<usize> {
        let permits = |pattern: &PathPattern| match &pattern.target {
            Target::Attribute(NameTest::Exact(exact)) => exact == name,
            Target::Attribute(test) => !explicit && test.accepts(name),
            Target::Element => !explicit && pattern.steps.last() == Some(&Step::Descend),
        };
        let mut ends = self.ends.iter().copied();
        ends.find(|n| permits(&set.patterns[*n].pattern))
    }
}

/// An element that is entered, with what is known of it once a pattern asks.
struct Entry<'e, 'a> {
    set: &'e PatternSet,
    side: &'e mut DocumentIndex<'a>,
    at: &'e ElementAt<'a>,
    name: &'a str,
    explicit: bool,
    holding: Option<Holding>,
    ambiguity: Option<(bool, Vec<Vec<usize>>)>,
    budget: &'e Budget<'e>,
}

impl Entry<'_, '_> {
    /// The state of a pattern inside the element, and whether an ambiguous predicate stood in the way.
    fn advance(&mut self, prepared: &PreparedPattern, state: u64) -> (u64, bool) {
        let mut next = 0;
        let mut ambiguous = false;
        let mut left = state & !(1 << prepared.steps.len());
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            match &prepared.pattern.steps[n] {
                Step::Descend => next |= u64::from(!self.explicit) << n,
                Step::Child { name, .. } => {
                    let named = matches!(name, NameTest::Exact(_)) || !self.explicit;
                    let step = &prepared.steps[n];
                    if !named || !name.accepts(self.name) || !self.predicates_hold(name, step) {
                        continue;
                    }
                    if !step.asked.is_empty() && self.is_ambiguous(&step.asked) {
                        ambiguous = true;
                        continue;
                    }
                    next |= 1 << (n + 1);
                }
            }
        }
        (prepared.pattern.close(next), ambiguous)
    }

    fn predicates_hold(&mut self, name: &NameTest, step: &PreparedStep) -> bool {
        if !step.positions.is_empty() {
            let position = self.side.position(self.at, name);
            if step.positions.iter().any(|wanted| *wanted != position) {
                return false;
            }
        }
        if step.conditions.is_empty() {
            return true;
        }
        let (set, element, budget) = (self.set, self.at.element, self.budget);
        let test = || set.conditions.test(element, budget);
        let holding = self.holding.get_or_insert_with(test);
        step.conditions.iter().all(|number| holding.holds(*number))
    }

    /// Whether predicates that ask for these parts leave open which element this is.
    fn is_ambiguous(&mut self, asked: &[usize]) -> bool {
        let (always, keys) = self.ambiguity.get_or_insert_with(|| {
            let Ambiguity { always, keys } = self.side.ambiguity(self.at);
            (always, self.set.asked_keys(&keys))
        });
        *always
            || keys
                .iter()
                .any(|key| key.iter().all(|part| asked.contains(part)))
    }
}
