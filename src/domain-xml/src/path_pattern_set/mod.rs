//! Matching many patterns against one element after the other, from the root down.
//!
//! A check of changes walks two documents at once and asks at each element which patterns still
//! lead there: [`PatternStates`]. A pattern whose predicate does not tell an element from its siblings
//! does not lead there, and is reported as ambiguous.
//!
//! The patterns are one automaton, whose states are the steps that may be next. The work at an element grows with the
//! element's size plus the number of states around it, not with the product: names and predicates of all patterns are
//! tested together, and most states are dismissed by one comparison.

mod document_index;
mod pattern_states;
mod predicates;

use std::collections::HashMap;
use std::fmt;

use crate::PathPattern;
use crate::diff::element_keys::Parts;
use crate::path::{NameTest, Predicate, Step, Target};
pub use document_index::{DocumentIndex, ElementAt};
pub use pattern_states::PatternStates;
use predicates::{ConditionSet, Conditions};

/// Patterns, prepared to be matched together.
pub struct PatternSet {
    patterns: Vec<PathPattern>,
    /// The steps of all patterns, each pattern's followed by its end.
    states: Vec<State>,
    /// The tests of each state.
    tests: Vec<Tests>,
    /// The first state of each pattern.
    starts: Vec<usize>,
    conditions: Conditions,
    /// The number of each exact name of a step.
    names: HashMap<String, u32>,
    /// The number of each part that a predicate asks for: `target/@dev`.
    parts: HashMap<String, usize>,
}

/// A step that may be next, or the end of a pattern. Kept small, because all states around an element are visited.
struct State {
    pattern: u32,
    kind: StateKind,
    /// The most selective of its conditions.
    decisive: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StateKind {
    /// A child with this name, by number.
    Named(u32),
    /// A child whose name is accepted by [`Tests::name`].
    Accepting,
    /// Any number of levels.
    Descend,
    /// The pattern's last step is done.
    End,
}

/// What an element must be so that a step leads there.
struct Tests {
    name: NameTest,
    positions: Vec<usize>,
    conditions: ConditionSet,
    /// The parts that the conditions ask for, by number.
    asked: Vec<usize>,
}

impl fmt::Debug for PatternSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns = self.patterns.iter().map(PathPattern::as_str);
        f.debug_set().entries(patterns).finish()
    }
}

impl PatternSet {
    /// Prepares patterns.
    pub fn new(patterns: &[PathPattern]) -> PatternSet {
        let mut set = PatternSet {
            patterns: patterns.to_vec(),
            states: Vec::new(),
            tests: Vec::new(),
            starts: Vec::with_capacity(patterns.len()),
            conditions: Conditions::default(),
            names: HashMap::new(),
            parts: HashMap::new(),
        };
        for (number, pattern) in patterns.iter().enumerate() {
            set.starts.push(set.states.len());
            for step in &pattern.steps {
                set.add_step(number, step);
            }
            set.add_state(number, StateKind::End, Tests::none());
        }
        set.choose_decisive();
        set
    }

    fn add_state(&mut self, pattern: usize, kind: StateKind, tests: Tests) {
        self.states.push(State {
            pattern: narrow(pattern),
            kind,
            decisive: None,
        });
        self.tests.push(tests);
    }

    fn add_step(&mut self, pattern: usize, step: &Step) {
        let Step::Child { name, predicates } = step else {
            return self.add_state(pattern, StateKind::Descend, Tests::none());
        };
        let kind = match name {
            NameTest::Exact(name) => {
                let next = narrow(self.names.len());
                StateKind::Named(*self.names.entry(name.clone()).or_insert(next))
            }
            NameTest::Any | NameTest::Prefix(_) => StateKind::Accepting,
        };
        let mut tests = Tests {
            name: name.clone(),
            ..Tests::none()
        };
        for predicate in predicates {
            match predicate {
                Predicate::Position(position) => tests.positions.push(*position),
                Predicate::Holds {
                    names,
                    target,
                    value,
                } => {
                    let condition = self.conditions.add(names, target, value.as_deref());
                    tests.conditions.insert(condition);
                    let next = self.parts.len();
                    let part = self.parts.entry(part(names, target)).or_insert(next);
                    tests.asked.push(*part);
                }
            }
        }
        self.add_state(pattern, kind, tests);
    }

    /// The condition that the fewest steps share says the most.
    fn choose_decisive(&mut self) {
        let mut shared = vec![0_usize; self.conditions.count()];
        for condition in self.tests.iter().flat_map(|tests| tests.conditions.iter()) {
            shared[condition] += 1;
        }
        for (state, tests) in self.states.iter_mut().zip(&self.tests) {
            let decisive = tests.conditions.iter().min_by_key(|one| shared[*one]);
            state.decisive = decisive.map(narrow);
        }
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

impl State {
    fn pattern(&self) -> usize {
        self.pattern as usize
    }
}

impl Tests {
    fn none() -> Tests {
        Tests {
            name: NameTest::Any,
            positions: Vec::new(),
            conditions: ConditionSet::default(),
            asked: Vec::new(),
        }
    }
}

/// Patterns, names and conditions are counted in 32 bits; there are never more than a text has bytes.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What a predicate asks for, as keys are written: `target/@dev`.
fn part(names: &[String], target: &Target) -> String {
    let mut parts = names.to_vec();
    if let Target::Attribute(NameTest::Exact(name)) = target {
        parts.push(format!("@{name}"));
    }
    parts.join("/")
}
