//! The identities of children with one name: the values of their keys.

use std::collections::HashMap;

use super::element_keys::{self, Kind, Values};
use crate::Element;

/// Maximum number of alternative keys of an element.
pub(super) const ALTERNATIVES: usize = 3;

/// The identities of a name group's members.
#[derive(Default)]
pub(super) struct IdentityIndex<'a> {
    /// The number of each alternative's identity, by member.
    numbers_by_member: Vec<[Option<usize>; ALTERNATIVES]>,
    numbers: HashMap<Identity<'a>, usize>,
    /// The members with each identity, by number.
    members: Vec<IdentityMembers>,
}

/// The members with one identity: nearly always one.
pub(super) struct IdentityMembers {
    first: usize,
    others: Vec<usize>,
}

/// The values of an alternative key.
pub(super) type Identity<'a> = (usize, Values<'a>);

impl<'a> IdentityIndex<'a> {
    /// Adds the next member.
    pub(super) fn add(&mut self, element: &'a Element, kind: &Kind) {
        let member = self.numbers_by_member.len();
        let numbers = std::array::from_fn(|n| {
            let values = element_keys::values(element, kind.parts(n)?)?;
            let new = self.members.len();
            let number = *self.numbers.entry((n, values)).or_insert(new);
            match self.members.get_mut(number) {
                Some(members) => members.others.push(member),
                None => self.members.push(IdentityMembers {
                    first: member,
                    others: Vec::new(),
                }),
            }
            Some(number)
        });
        self.numbers_by_member.push(numbers);
    }

    /// The number of each identity in another index, if that has it.
    pub(super) fn numbers_in(&self, other: &IdentityIndex<'_>) -> Vec<Option<usize>> {
        let mut numbers = vec![None; self.members.len()];
        for (identity, number) in &self.numbers {
            numbers[*number] = other.numbers.get(identity).copied();
        }
        numbers
    }

    /// The number of a member's identity, by alternative.
    pub(super) fn numbers_of(&self, member: usize) -> &[Option<usize>; ALTERNATIVES] {
        &self.numbers_by_member[member]
    }

    /// The members with an identity.
    pub(super) fn members_of(&self, number: usize) -> &IdentityMembers {
        &self.members[number]
    }
}

impl IdentityMembers {
    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The only member with the identity.
    pub(super) fn only(&self) -> Option<usize> {
        self.others.is_empty().then_some(self.first)
    }

    /// The members in their order, by index.
    pub(super) fn get(&self, at: usize) -> Option<usize> {
        match at.checked_sub(1) {
            None => Some(self.first),
            Some(other) => self.others.get(other).copied(),
        }
    }
}
