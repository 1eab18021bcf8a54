//! Matching many patterns against one element after the other, from the root down.
//!
//! A check of changes walks two documents at once and asks at each element which patterns still
//! lead there: [`PatternStates`]. A pattern whose predicate does not tell an element from its siblings
//! does not lead there, and is reported as ambiguous.
//!
//! The patterns are one automaton, whose states are the steps that may be next. The work at an element grows with the
//! element's size plus the number of states around it, not with the product: names and predicates of all patterns are
//! tested together, and most states are dismissed by one comparison.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use crate::diff::element_keys::Parts;
use crate::diff::namespace_scope;
use crate::diff::namespace_scope::Scope;
use crate::diff::sibling_index::SiblingIndex;
use crate::host::Budget;
use crate::path::{NameTest, Predicate, Step, Target};
use crate::{Element, PathPattern};

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

// The predicates of many patterns, tested together: one walk over an element's content finds all that hold, whatever
// their number.

/// Conditions of predicates as a tree: child names lead down, attributes and texts are tested at its nodes.
#[derive(Default)]
struct Conditions {
    nodes: Vec<Node>,
    count: usize,
}

/// The conditions at the end of one path of child names.
#[derive(Default)]
struct Node {
    children: HashMap<Box<str>, usize>,
    attributes: HashMap<Box<str>, Values>,
    text: Values,
}

/// Conditions on one value, by number.
#[derive(Default)]
struct Values {
    exists: Option<usize>,
    equals: HashMap<Box<str>, usize>,
}

/// The conditions that hold for an element: one bit for each.
struct HeldConditions(Vec<u64>);

/// The conditions of a step: words of [`HeldConditions`] by index, each once.
#[derive(Default)]
struct ConditionSet(Vec<(usize, u64)>);

impl ConditionSet {
    fn insert(&mut self, condition: usize) {
        let (word, bit) = (condition / 64, 1 << (condition % 64));
        match self.0.iter_mut().find(|(index, _)| *index == word) {
            Some((_, bits)) => *bits |= bit,
            None => self.0.push((word, bit)),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let in_word = |(index, bits): &(usize, u64)| {
            let (index, bits) = (*index, *bits);
            let set = (0..64).filter(move |bit| bits >> bit & 1 == 1);
            set.map(move |bit| index * 64 + bit)
        };
        self.0.iter().flat_map(in_word)
    }
}

impl Conditions {
    /// Adds a condition and returns its number; equal ones share it.
    fn add(&mut self, names: &[String], target: &Target, value: Option<&str>) -> usize {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for name in names {
            let new = self.nodes.len();
            at = *self.nodes[at]
                .children
                .entry(name.as_str().into())
                .or_insert(new);
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        let values = match target {
            Target::Attribute(NameTest::Exact(name)) => self.nodes[at]
                .attributes
                .entry(name.as_str().into())
                .or_default(),
            // The parser accepts no other attribute in a predicate.
            Target::Element | Target::Attribute(_) => &mut self.nodes[at].text,
        };
        let new = self.count;
        let number = match value {
            None => *values.exists.get_or_insert(new),
            Some(value) => *values.equals.entry(value.into()).or_insert(new),
        };
        self.count += usize::from(number == new);
        number
    }

    /// The number of conditions.
    fn count(&self) -> usize {
        self.count
    }

    /// Tests all conditions on an element.
    fn test(&self, element: &Element, budget: &Budget<'_>) -> HeldConditions {
        let mut held_conditions = HeldConditions(vec![0; self.count.div_ceil(64)]);
        if let Some(root) = self.nodes.first() {
            self.visit(root, element, &mut held_conditions, budget);
        }
        held_conditions
    }

    /// As deep as the shorter of the document and the longest predicate.
    fn visit(
        &self,
        node: &Node,
        element: &Element,
        held_conditions: &mut HeldConditions,
        budget: &Budget<'_>,
    ) {
        if !budget.spend(1) {
            return;
        }
        held_conditions.set(node.text.exists);
        // Every element around reads the same text and tags again.
        if !node.text.equals.is_empty() && budget.spend_text(element.text_bytes()) {
            held_conditions.set(node.text.equals.get(element.text().as_str()).copied());
        }
        if !node.attributes.is_empty() && budget.spend_text(element.tag_bytes()) {
            for attribute in element.attributes() {
                if let Some(values) = node.attributes.get(attribute.name) {
                    held_conditions.set(values.exists);
                    held_conditions.set(values.equals.get(attribute.value().as_ref()).copied());
                }
            }
        }
        if !node.children.is_empty() {
            budget.spend(element.nodes().len() as u64);
            for child in element.children() {
                if !budget.spend_text(child.canonical_name().len()) {
                    return;
                }
                if let Some(next) = node.children.get(child.canonical_name()) {
                    self.visit(&self.nodes[*next], child, held_conditions, budget);
                }
            }
        }
    }
}

impl HeldConditions {
    fn set(&mut self, condition: Option<usize>) {
        if let Some(number) = condition {
            self.0[number / 64] |= 1 << (number % 64);
        }
    }

    fn has(&self, condition: usize) -> bool {
        self.0[condition / 64] >> (condition % 64) & 1 == 1
    }

    fn has_all(&self, conditions: &ConditionSet) -> bool {
        let mut words = conditions.0.iter();
        words.all(|(index, bits)| self.0[*index] & bits == *bits)
    }
}

/// Up to this many nodes are counted one by one, which is faster than a look-up in the list of children.
const COUNTED_NODES_MAX: usize = 16;

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

/// One document. The children and siblings of a large element are looked up once, because a hostile hook can change
/// every child.
pub struct DocumentIndex<'a> {
    root: &'a Element,
    children: HashMap<*const Element, Vec<&'a Element>>,
    siblings: HashMap<*const Element, SiblingIndex<'a>>,
    positions: HashMap<*const Element, Vec<Position>>,
}

/// Positions of a child among its siblings, from 1.
#[derive(Clone, Copy)]
struct Position {
    of_name: usize,
    of_prefix: usize,
}

/// How predicates fail to tell an element from its siblings.
struct Ambiguity {
    /// Whether they fail whatever they ask for.
    always: bool,
    /// The keys that do not distinguish it.
    keys: Vec<Parts>,
}

impl fmt::Debug for DocumentIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentIndex")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
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
            inside: namespace_scope::enter(None, self.root),
        }
    }

    /// A child by its index among the element children.
    pub fn child(&mut self, parent: &ElementAt<'a>, index: usize) -> Option<ElementAt<'a>> {
        let element = self.nth_child(parent.element, index)?;
        Some(ElementAt {
            element,
            parent: Some(parent.element),
            index,
            around: parent.inside.clone(),
            inside: namespace_scope::enter(parent.inside.as_ref(), element),
        })
    }

    fn nth_child(&mut self, parent: &'a Element, index: usize) -> Option<&'a Element> {
        if parent.nodes().len() <= COUNTED_NODES_MAX {
            return parent.children().nth(index);
        }
        let children = self.children.entry(std::ptr::from_ref(parent));
        let children = children.or_insert_with(|| parent.children().collect());
        children.get(index).copied()
    }

    /// How predicates fail to tell which element this is.
    fn ambiguity(&mut self, at: &ElementAt<'a>) -> Ambiguity {
        let Some(parent) = at.parent else {
            return Ambiguity {
                always: false,
                keys: Vec::new(),
            };
        };
        let siblings = self.siblings.entry(std::ptr::from_ref(parent));
        let siblings = siblings.or_insert_with(|| SiblingIndex::new(parent, at.around.as_ref()));
        let (always, keys) = siblings.ambiguity(at.index);
        Ambiguity { always, keys }
    }

    /// The place among the siblings that the name accepts, from 1; 0 if it does not accept this element.
    fn position(&mut self, at: &ElementAt<'a>, name: &NameTest) -> usize {
        let Some(parent) = at.parent else {
            return 1;
        };
        if *name == NameTest::Any {
            return at.index + 1;
        }
        let positions = self.positions.entry(std::ptr::from_ref(parent));
        let positions = positions.or_insert_with(|| positions_below(parent));
        let Some(position) = positions.get(at.index) else {
            return 0;
        };
        let own = at.element.canonical_name();
        match name {
            NameTest::Exact(exact) if exact == own => position.of_name,
            NameTest::Prefix(prefix) if *prefix == prefix_of(own) => position.of_prefix,
            _ => 0,
        }
    }
}

/// `qemu:` of `qemu:arg`; empty without a prefix.
fn prefix_of(name: &str) -> &str {
    name.find(':').map_or("", |colon| &name[..=colon])
}

fn positions_below(parent: &Element) -> Vec<Position> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut prefixes: HashMap<&str, usize> = HashMap::new();
    let mut positions = Vec::new();
    for child in parent.children() {
        let name = child.canonical_name();
        let of_name = names.entry(name).or_default();
        let of_prefix = prefixes.entry(prefix_of(name)).or_default();
        *of_name += 1;
        *of_prefix += 1;
        positions.push(Position {
            of_name: *of_name,
            of_prefix: *of_prefix,
        });
    }
    positions
}
