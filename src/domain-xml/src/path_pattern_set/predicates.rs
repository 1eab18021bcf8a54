//! The predicates of many patterns, tested together: one walk over an element's content finds all that hold, whatever
//! their number.

use std::collections::HashMap;

use crate::Element;
use crate::host::Budget;
use crate::path::{NameTest, Target};

/// Conditions of predicates as a tree: child names lead down, attributes and texts are tested at its nodes.
#[derive(Default)]
pub(super) struct Conditions {
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
pub(super) struct HeldConditions(Vec<u64>);

/// The conditions of a step: words of [`HeldConditions`] by index, each once.
#[derive(Default)]
pub(super) struct ConditionSet(Vec<(usize, u64)>);

impl ConditionSet {
    pub(super) fn insert(&mut self, condition: usize) {
        let (word, bit) = (condition / 64, 1 << (condition % 64));
        match self.0.iter_mut().find(|(index, _)| *index == word) {
            Some((_, bits)) => *bits |= bit,
            None => self.0.push((word, bit)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
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
    pub(super) fn add(&mut self, names: &[String], target: &Target, value: Option<&str>) -> usize {
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
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Tests all conditions on an element.
    pub(super) fn test(&self, element: &Element, budget: &Budget<'_>) -> HeldConditions {
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

    pub(super) fn has(&self, condition: usize) -> bool {
        self.0[condition / 64] >> (condition % 64) & 1 == 1
    }

    pub(super) fn has_all(&self, conditions: &ConditionSet) -> bool {
        let mut words = conditions.0.iter();
        words.all(|(index, bits)| self.0[*index] & bits == *bits)
    }
}
