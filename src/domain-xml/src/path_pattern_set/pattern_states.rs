//! Which steps of each pattern have matched on the way from the root to an element.

use super::document_index::Ambiguity;
use super::predicates::HeldConditions;
use super::{DocumentIndex, ElementAt, PatternSet, State, StateKind, Tests};
use crate::PathPattern;
use crate::host::Budget;
use crate::path::{NameTest, Step, Target};

/// States for each step of the budget.
const STATES_PER_STEP: u64 = 16;

/// The states of the patterns that lead to an element, ascending.
#[derive(Clone, Default)]
pub struct PatternStates(Vec<usize>);

impl PatternStates {
    /// The state before the root: a pattern that is not absolute begins inside it.
    pub fn start(set: &PatternSet) -> PatternStates {
        let mut start = PatternStates::default();
        for first in &set.starts {
            start.add(set, *first);
        }
        start
    }

    /// Adds a state, and those that it leads to without another element.
    fn add(&mut self, set: &PatternSet, mut state: usize) {
        self.0.push(state);
        while set.states[state].kind == StateKind::Descend {
            state += 1;
            self.0.push(state);
        }
    }

    /// Enters an element. With `explicit`, only a step with the element's exact name leads there.
    /// Also returns the first pattern that an ambiguous predicate stopped.
    pub fn enter<'a>(
        &self,
        set: &PatternSet,
        index: &mut DocumentIndex<'a>,
        at: &ElementAt<'a>,
        explicit: bool,
        budget: &Budget<'_>,
    ) -> (PatternStates, Option<usize>) {
        budget.spend(1 + self.0.len() as u64 / STATES_PER_STEP);
        let mut entry = Entry {
            set,
            index,
            at,
            name: set.names.get(at.element.canonical_name()).copied(),
            explicit,
            held_conditions: None,
            ambiguity: None,
            budget,
        };
        let is_root = at.parent.is_none();
        let mut stopped = None;
        let mut inside = PatternStates::default();
        for number in &self.0 {
            let state = &set.states[*number];
            if is_root && !set.patterns[state.pattern()].absolute {
                inside.0.push(*number);
                continue;
            }
            match entry.advance(*number, state) {
                Advance::No => {}
                Advance::Stay => inside.add(set, *number),
                Advance::Next => inside.add(set, number + 1),
                Advance::Ambiguous => stopped = stopped.or(Some(state.pattern())),
            }
        }
        // A state may be reached from itself and from the one before.
        if !inside.0.is_sorted_by(|one, next| one < next) {
            inside.0.sort_unstable();
            inside.0.dedup();
        }
        (inside, stopped)
    }

    /// The patterns that lead to the element in both documents.
    #[must_use]
    pub fn and(&self, other: &PatternStates) -> PatternStates {
        let mut others = other.0.iter().peekable();
        let is_shared = |ours: &&usize| {
            while others.next_if(|their| their < ours).is_some() {}
            others.next_if(|their| their == ours).is_some()
        };
        PatternStates(self.0.iter().filter(is_shared).copied().collect())
    }

    /// The first pattern that may still lead further.
    pub fn first_alive(&self, set: &PatternSet) -> Option<usize> {
        let first = self.0.first();
        first.map(|number| set.states[*number].pattern())
    }

    /// The first pattern that leads to something inside of the element.
    pub fn first_leading_inside(&self, set: &PatternSet) -> Option<usize> {
        let mut states = self.0.iter().map(|number| &set.states[*number]);
        let leading = states.find(|state| state.kind != StateKind::End);
        leading.map(State::pattern)
    }

    /// The patterns that permit the element itself: its text, that it is there, and the order of its children.
    pub fn patterns_permitting_element(&self, set: &PatternSet) -> impl Iterator<Item = usize> {
        self.ends(set, |pattern| pattern.target == Target::Element)
    }

    /// The patterns that permit this attribute.
    pub fn patterns_permitting_attribute(
        &self,
        set: &PatternSet,
        name: &str,
        explicit: bool,
    ) -> impl Iterator<Item = usize> {
        self.ends(set, move |pattern| match &pattern.target {
            Target::Attribute(NameTest::Exact(exact)) => exact == name,
            Target::Attribute(test) => !explicit && test.accepts(name),
            Target::Element => !explicit && pattern.steps.last() == Some(&Step::Descend),
        })
    }

    fn ends(
        &self,
        set: &PatternSet,
        permits: impl Fn(&PathPattern) -> bool,
    ) -> impl Iterator<Item = usize> {
        let states = self.0.iter().map(|number| &set.states[*number]);
        let ends = states.filter(|state| state.kind == StateKind::End);
        let patterns = ends.map(State::pattern);
        patterns.filter(move |number| permits(&set.patterns[*number]))
    }
}

/// The result of matching one state with an element.
enum Advance {
    /// The step does not lead there.
    No,
    /// The step leads there and may be next again.
    Stay,
    /// The step leads there.
    Next,
    /// The step's predicates hold, but also for another element: the match is ambiguous.
    Ambiguous,
}

/// An element that is entered. What patterns need to know of it is computed on demand.
struct Entry<'e, 'a> {
    set: &'e PatternSet,
    index: &'e mut DocumentIndex<'a>,
    at: &'e ElementAt<'a>,
    /// The name's number, if a step has that name.
    name: Option<u32>,
    explicit: bool,
    held_conditions: Option<HeldConditions>,
    ambiguity: Option<(bool, Vec<Vec<usize>>)>,
    budget: &'e Budget<'e>,
}

impl Entry<'_, '_> {
    fn advance(&mut self, number: usize, state: &State) -> Advance {
        let set = self.set;
        match state.kind {
            StateKind::End => return Advance::No,
            StateKind::Descend if self.explicit => return Advance::No,
            StateKind::Descend => return Advance::Stay,
            StateKind::Named(name) if self.name == Some(name) => {}
            StateKind::Accepting if !self.explicit => {}
            StateKind::Named(_) | StateKind::Accepting => return Advance::No,
        }
        if let Some(condition) = state.decisive
            && !self.held_conditions().has(condition as usize)
        {
            return Advance::No;
        }
        let tests = &set.tests[number];
        if !self.are_met(tests, state.kind) {
            Advance::No
        } else if !tests.asked.is_empty() && self.is_ambiguous(&tests.asked) {
            Advance::Ambiguous
        } else {
            Advance::Next
        }
    }

    /// The predicates that hold, of all patterns.
    fn held_conditions(&mut self) -> &HeldConditions {
        let (set, element, budget) = (self.set, self.at.element, self.budget);
        self.held_conditions
            .get_or_insert_with(|| set.conditions.test(element, budget))
    }

    fn are_met(&mut self, tests: &Tests, kind: StateKind) -> bool {
        let name = &tests.name;
        if kind == StateKind::Accepting && !name.accepts(self.at.element.canonical_name()) {
            return false;
        }
        if !tests.positions.is_empty() {
            let position = self.index.position(self.at, name);
            if tests.positions.iter().any(|wanted| *wanted != position) {
                return false;
            }
        }
        tests.conditions.is_empty() || self.held_conditions().has_all(&tests.conditions)
    }

    /// Whether predicates over these parts hold for more than one element.
    fn is_ambiguous(&mut self, asked: &[usize]) -> bool {
        let (always, keys) = self.ambiguity.get_or_insert_with(|| {
            let Ambiguity { always, keys } = self.index.ambiguity(self.at);
            (always, self.set.asked_keys(&keys))
        });
        *always
            || keys
                .iter()
                .any(|key| key.iter().all(|part| asked.contains(part)))
    }
}
