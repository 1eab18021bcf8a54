//! Interns the names of an element's children: each name has a number.

use std::collections::HashMap;
use std::hash::Hash;

/// Up to this many names are searched one by one, which is faster than hashing; most elements have children of fewer.
const LINEAR_SEARCH_MAX: usize = 8;

/// Names by number, in the order of their first use.
pub(super) struct NameInterner<K> {
    names: Vec<K>,
    /// The numbers of all names, once there are more than a few.
    numbers: HashMap<K, usize>,
}

impl<K: Clone + Eq + Hash> NameInterner<K> {
    pub(super) fn new() -> Self {
        NameInterner {
            names: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    pub(super) fn names(&self) -> &[K] {
        &self.names
    }

    pub(super) fn find(&self, name: &K) -> Option<usize> {
        match self.numbers.is_empty() {
            true => self.names.iter().position(|known| known == name),
            false => self.numbers.get(name).copied(),
        }
    }

    /// The name's number, a new one if it has none.
    pub(super) fn number(&mut self, name: K) -> usize {
        if let Some(number) = self.find(&name) {
            return number;
        }
        let number = self.names.len();
        self.names.push(name.clone());
        if number == LINEAR_SEARCH_MAX {
            self.numbers = self.names.iter().cloned().zip(0..).collect();
        } else if number > LINEAR_SEARCH_MAX {
            self.numbers.insert(name, number);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_in_the_order_of_their_first_use() {
        let mut interner = NameInterner::new();
        for round in 0..2 {
            for name in 0..3 * LINEAR_SEARCH_MAX {
                assert_eq!(interner.number(name * 7), name, "in round {round}");
            }
        }
        assert_eq!(interner.names().len(), 3 * LINEAR_SEARCH_MAX);
        assert_eq!(interner.find(&7), Some(1));
        assert_eq!(interner.find(&8), None);
    }
}
