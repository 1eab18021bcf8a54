//! An index of the children of one element: by name, and by the keys that distinguish children of one name.
//!
//! Identities (values of keys) are computed per name and on demand, since most children are the only ones of their
//! name and need none.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use super::element_keys::{Kind, Parts, Values};
use super::element_paths::{PathStep, Selector};
use super::namespace_scope::{Name, Scope};
use super::{element_keys, namespace_scope};
use crate::Element;

/// The children of one element.
pub(crate) struct SiblingIndex<'a> {
    pub(super) list: Vec<Child<'a>>,
    /// Children by the name that paths use, [`Element::canonical_name`].
    path_name_groups: Vec<PathNameGroup>,
    /// Children by name and namespace, whatever prefix they are written with; a group's index is the name's number.
    name_groups: Vec<NameGroup<'a>>,
    names: NameInterner<Name<'a>>,
}

/// One child, with its groups by their indices.
pub(super) struct Child<'a> {
    pub(super) element: &'a Element,
    /// The namespaces inside the child.
    pub(super) scope: Option<Rc<Scope>>,
    path_name_group: usize,
    /// Position in its path name group, from 1.
    position: usize,
    /// The next child of its path name group.
    next_in_path_name_group: Option<usize>,
    name_group: usize,
    /// Index in its name group.
    member: usize,
}

/// The children with one name and namespace.
#[derive(Default)]
pub(super) struct NameGroup<'a> {
    pub(super) members: Vec<usize>,
    identities: OnceCell<IdentityIndex<'a>>,
}

impl<'a> SiblingIndex<'a> {
    pub(crate) fn new(parent: &'a Element, scope: Option<&Rc<Scope>>) -> SiblingIndex<'a> {
        let mut index = SiblingIndex {
            list: Vec::with_capacity(parent.children().count()),
            path_name_groups: Vec::new(),
            name_groups: Vec::new(),
            names: NameInterner::new(),
        };
        let mut path_names = NameInterner::new();
        for element in parent.children() {
            let scope = namespace_scope::enter(scope, element);
            let name_group = index.names.number(Name::of(element, scope.as_ref()));
            let path_name_group = path_names.number(element.canonical_name());
            index.add(element, scope, name_group, path_name_group);
        }
        index
    }

    fn add(
        &mut self,
        element: &'a Element,
        scope: Option<Rc<Scope>>,
        name_group: usize,
        path_name_group: usize,
    ) {
        let at = self.list.len();
        if name_group == self.name_groups.len() {
            self.name_groups.push(NameGroup::default());
        }
        match self.path_name_groups.get_mut(path_name_group) {
            Some(group) => {
                group.has_several_namespaces |= self.list[group.first].name_group != name_group;
                self.list[group.last].next_in_path_name_group = Some(at);
                group.last = at;
                group.count += 1;
            }
            None => self
                .path_name_groups
                .push(PathNameGroup::new(at, element.canonical_name())),
        }
        let members = &mut self.name_groups[name_group].members;
        members.push(at);
        self.list.push(Child {
            element,
            scope,
            path_name_group,
            position: self.path_name_groups[path_name_group].count,
            next_in_path_name_group: None,
            name_group,
            member: members.len() - 1,
        });
    }

    /// How many children of its name stand before a child.
    pub(super) fn rank(&self, at: usize) -> usize {
        self.list[at].member
    }

    pub(super) fn name_groups(&self) -> &[NameGroup<'a>] {
        &self.name_groups
    }

    /// The groups of the names that both have.
    pub(super) fn common_name_groups<'s>(
        &'s self,
        other: &'s SiblingIndex<'a>,
    ) -> impl Iterator<Item = (&'s NameGroup<'a>, &'s NameGroup<'a>)> {
        let named = self.name_groups.iter().zip(self.names.names());
        named.filter_map(|(name_group, name)| {
            let number = other.names.find(name)?;
            Some((name_group, &other.name_groups[number]))
        })
    }

    /// The path step that selects a child and no other.
    pub(super) fn step(&self, at: usize) -> PathStep<'a> {
        let child = &self.list[at];
        let only = self.is_only(at);
        let by_key = || {
            let parts = self.unique_key(child)?;
            Some((parts, element_keys::values(child.element, parts)?))
        };
        let selector = if only && self.kind(at).only_child_is_itself {
            Selector::Only
        } else if let Some((parts, values)) = by_key() {
            Selector::Key(parts, values)
        } else if only {
            Selector::Only
        } else {
            Selector::Nth(child.position)
        };
        PathStep {
            element: child.element,
            index: at,
            selector,
        }
    }

    /// The first alternative that no sibling shares.
    fn unique_key(&self, child: &Child<'a>) -> Option<Parts> {
        let path_name_group = self.path_name_group(child);
        if path_name_group.has_several_namespaces {
            return None;
        }
        let has_repeated_parts = self.has_repeated_parts(child);
        let mut alternatives = path_name_group.kind.alternatives.iter().enumerate();
        let is_unique = |n: usize| !has_repeated_parts[n] && self.identity_count(child, n) == 1;
        alternatives
            .find(|(n, _)| is_unique(*n))
            .map(|(_, parts)| *parts)
    }

    /// How predicates fail to distinguish a child from its siblings: whether always, because only its position does or
    /// it shares its identity; and the keys that it shares or lacks, which fail predicates that use them.
    pub(crate) fn ambiguity(&self, at: usize) -> (bool, Vec<Parts>) {
        let Some(child) = self.list.get(at) else {
            return (true, Vec::new());
        };
        let by_position = !self.is_only(at) && self.unique_key(child).is_none();
        let count = |n: usize| self.identity_count(child, n);
        let best = (0..ALTERNATIVES).map(count).find(|count| *count > 0);
        let is_shared = best.is_some_and(|count| count > 1);
        let has_repeated_parts = self.has_repeated_parts(child);
        let alternatives = self.kind(at).alternatives.iter().enumerate();
        let failing = alternatives.filter(|(n, _)| has_repeated_parts[*n] || count(*n) != 1);
        (
            by_position || is_shared,
            failing.map(|(_, parts)| *parts).collect(),
        )
    }

    /// The keys of the children of its name.
    pub(super) fn kind(&self, at: usize) -> &Kind {
        &self.path_name_group(&self.list[at]).kind
    }

    /// Whether no sibling has its name.
    pub(super) fn is_only(&self, at: usize) -> bool {
        self.path_name_group(&self.list[at]).count == 1
    }

    fn path_name_group(&self, child: &Child<'a>) -> &PathNameGroup {
        &self.path_name_groups[child.path_name_group]
    }

    fn has_repeated_parts(&self, child: &Child<'a>) -> [bool; ALTERNATIVES] {
        let path_name_group = self.path_name_group(child);
        *path_name_group.has_repeated_parts.get_or_init(|| {
            std::array::from_fn(|n| {
                let Some(parts) = path_name_group.kind.parts(n) else {
                    return false;
                };
                let first = &self.list[path_name_group.first];
                let next = |member: &&Child<'a>| Some(&self.list[member.next_in_path_name_group?]);
                let members = std::iter::successors(Some(first), next);
                let mut unidentified = members.filter(|member| self.identity_count(member, n) == 0);
                unidentified.any(|member| element_keys::has_repeated_part(member.element, parts))
            })
        })
    }

    /// The number of children with this child's identity, itself included; zero if it has none.
    fn identity_count(&self, child: &Child<'a>, alternative: usize) -> usize {
        let identities = self.identities(&self.name_groups[child.name_group]);
        let number = identities.numbers_of(child.member)[alternative];
        number.map_or(0, |number| identities.members_of(number).count())
    }

    pub(super) fn identities<'s>(&'s self, name_group: &'s NameGroup<'a>) -> &'s IdentityIndex<'a> {
        name_group.identities.get_or_init(|| {
            let mut identities = IdentityIndex::default();
            for at in &name_group.members {
                identities.add(self.list[*at].element, self.kind(*at));
            }
            identities
        })
    }
}

/// The children with one name in paths.
pub(super) struct PathNameGroup {
    pub(super) kind: Kind,
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) count: usize,
    /// Whether the children have different namespaces, because one is written with the prefix of another namespace.
    pub(super) has_several_namespaces: bool,
    /// For each alternative key: whether a child has one of its parts several times, so that predicates cannot
    /// distinguish the children.
    pub(super) has_repeated_parts: OnceCell<[bool; ALTERNATIVES]>,
}

impl PathNameGroup {
    pub(super) fn new(first: usize, name: &str) -> PathNameGroup {
        PathNameGroup {
            kind: element_keys::kind(name),
            first,
            last: first,
            count: 1,
            has_several_namespaces: false,
            has_repeated_parts: OnceCell::new(),
        }
    }
}

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
