//! The children of one element, and the keys that distinguish them.
//!
//! Identities (values of keys) are computed per name and on demand, since most children are the only ones of their
//! name and need none.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::element_keys::{self, Kind, Parts, Values};
use super::element_paths::{PathStep, Selector};
use super::name_interner::NameInterner;
use super::namespaces::{self, Name, Scope};
use crate::Element;

/// The most alternative keys of an element.
pub(super) const ALTERNATIVES: usize = 3;

pub(crate) struct Siblings<'a> {
    pub(super) list: Vec<Child<'a>>,
    /// Children by the name that paths use, [`Element::canonical_name`].
    namesakes: Vec<Namesakes>,
    /// Children of equal names, whatever prefix they are written with, by the name's number.
    families: Vec<Family<'a>>,
    names: NameInterner<Name<'a>>,
}

pub(super) struct Child<'a> {
    pub(super) element: &'a Element,
    /// The namespaces inside the child.
    pub(super) scope: Option<Rc<Scope>>,
    namesakes: usize,
    /// Position among its namesakes, from 1.
    nth: usize,
    /// The next of its namesakes.
    next: Option<usize>,
    family: usize,
    /// Index in its family.
    member: usize,
}

/// The children with one name in paths.
struct Namesakes {
    kind: Kind,
    first: usize,
    last: usize,
    count: usize,
    /// Whether a child is written with the prefix of another namespace.
    mixed: bool,
    /// Alternatives that a child has several times, so that predicates cannot distinguish the children.
    manifold: OnceCell<[bool; ALTERNATIVES]>,
}

/// The children with one name and namespace.
#[derive(Default)]
pub(super) struct Family<'a> {
    pub(super) members: Vec<usize>,
    identities: OnceCell<Identities<'a>>,
}

/// The identities of a family's members.
#[derive(Default)]
pub(super) struct Identities<'a> {
    /// The number of each alternative's identity, by member.
    of: Vec<[Option<usize>; ALTERNATIVES]>,
    numbers: HashMap<Identity<'a>, usize>,
    /// The members that share an identity, by number.
    sharing: Vec<Sharing>,
}

/// The members that share an identity: nearly always one.
pub(super) struct Sharing {
    first: usize,
    others: Vec<usize>,
}

/// The values of an alternative key.
pub(super) type Identity<'a> = (usize, Values<'a>);

impl<'a> Siblings<'a> {
    pub(crate) fn of(parent: &'a Element, scope: Option<&Rc<Scope>>) -> Siblings<'a> {
        let mut siblings = Siblings {
            list: Vec::with_capacity(parent.children().count()),
            namesakes: Vec::new(),
            families: Vec::new(),
            names: NameInterner::new(),
        };
        let mut in_paths = NameInterner::new();
        for element in parent.children() {
            let scope = namespaces::enter(scope, element);
            let family = siblings.names.number(Name::of(element, scope.as_ref()));
            let namesakes = in_paths.number(element.canonical_name());
            siblings.add(element, scope, family, namesakes);
        }
        siblings
    }

    fn add(
        &mut self,
        element: &'a Element,
        scope: Option<Rc<Scope>>,
        family: usize,
        namesakes: usize,
    ) {
        let at = self.list.len();
        if family == self.families.len() {
            self.families.push(Family::default());
        }
        match self.namesakes.get_mut(namesakes) {
            Some(others) => {
                others.mixed |= self.list[others.first].family != family;
                self.list[others.last].next = Some(at);
                others.last = at;
                others.count += 1;
            }
            None => self
                .namesakes
                .push(Namesakes::of(at, element.canonical_name())),
        }
        let relatives = &mut self.families[family].members;
        relatives.push(at);
        self.list.push(Child {
            element,
            scope,
            namesakes,
            nth: self.namesakes[namesakes].count,
            next: None,
            family,
            member: relatives.len() - 1,
        });
    }

    /// How many children of its name stand before a child.
    pub(super) fn rank(&self, at: usize) -> usize {
        self.list[at].member
    }

    pub(super) fn families(&self) -> &[Family<'a>] {
        &self.families
    }

    /// The families that both have.
    pub(super) fn common_families<'s>(
        &'s self,
        other: &'s Siblings<'a>,
    ) -> impl Iterator<Item = (&'s Family<'a>, &'s Family<'a>)> {
        let named = self.families.iter().zip(self.names.names());
        named.filter_map(|(family, name)| {
            let theirs = other.names.find(name)?;
            Some((family, &other.families[theirs]))
        })
    }

    /// The path step that selects a child and no other.
    pub(super) fn step(&self, at: usize) -> PathStep<'a> {
        let child = &self.list[at];
        let only = self.is_only(at);
        let by_key = || {
            let parts = self.own_key(child)?;
            Some((parts, element_keys::values(child.element, parts)?))
        };
        let selector = if only && self.kind(at).only_child_is_itself {
            Selector::Only
        } else if let Some((parts, values)) = by_key() {
            Selector::Key(parts, values)
        } else if only {
            Selector::Only
        } else {
            Selector::Nth(child.nth)
        };
        PathStep {
            element: child.element,
            index: at,
            selector,
        }
    }

    /// The first alternative that no sibling shares.
    fn own_key(&self, child: &Child<'a>) -> Option<Parts> {
        let namesakes = self.namesakes(child);
        if namesakes.mixed {
            return None;
        }
        let manifold = self.manifold(child);
        let mut alternatives = namesakes.kind.alternatives.iter().enumerate();
        let own = |n: usize| !manifold[n] && self.sharing(child, n) == 1;
        alternatives.find(|(n, _)| own(*n)).map(|(_, parts)| *parts)
    }

    /// How predicates fail to distinguish a child from its siblings: whether always, because only its position does or
    /// it shares its identity; and the keys that it shares or lacks, which fail predicates that use them.
    pub(crate) fn ambiguity(&self, at: usize) -> (bool, Vec<Parts>) {
        let Some(child) = self.list.get(at) else {
            return (true, Vec::new());
        };
        let by_position = !self.is_only(at) && self.own_key(child).is_none();
        let sharing = |n: usize| self.sharing(child, n);
        let best = (0..ALTERNATIVES).map(sharing).find(|sharing| *sharing > 0);
        let shared = best.is_some_and(|best| best > 1);
        let manifold = self.manifold(child);
        let alternatives = self.kind(at).alternatives.iter().enumerate();
        let failing = alternatives.filter(|(n, _)| manifold[*n] || sharing(*n) != 1);
        (
            by_position || shared,
            failing.map(|(_, parts)| *parts).collect(),
        )
    }

    /// The keys of the children of its name.
    pub(super) fn kind(&self, at: usize) -> &Kind {
        &self.namesakes(&self.list[at]).kind
    }

    /// Whether no sibling has its name.
    pub(super) fn is_only(&self, at: usize) -> bool {
        self.namesakes(&self.list[at]).count == 1
    }

    fn namesakes(&self, child: &Child<'a>) -> &Namesakes {
        &self.namesakes[child.namesakes]
    }

    fn manifold(&self, child: &Child<'a>) -> [bool; ALTERNATIVES] {
        let namesakes = self.namesakes(child);
        *namesakes.manifold.get_or_init(|| {
            std::array::from_fn(|n| {
                let Some(parts) = namesakes.kind.parts(n) else {
                    return false;
                };
                let first = &self.list[namesakes.first];
                let next = |member: &&Child<'a>| Some(&self.list[member.next?]);
                let members = std::iter::successors(Some(first), next);
                let mut unknown = members.filter(|member| self.sharing(member, n) == 0);
                unknown.any(|member| element_keys::is_manifold(member.element, parts))
            })
        })
    }

    /// The number of children with this child's identity, itself included; zero if it has none.
    fn sharing(&self, child: &Child<'a>, alternative: usize) -> usize {
        let identities = self.identities(&self.families[child.family]);
        let number = identities.of[child.member][alternative];
        number.map_or(0, |number| identities.sharing[number].count())
    }

    pub(super) fn identities<'s>(&'s self, family: &'s Family<'a>) -> &'s Identities<'a> {
        family.identities.get_or_init(|| {
            let mut identities = Identities::default();
            for at in &family.members {
                identities.add(&self.list[*at], self.kind(*at));
            }
            identities
        })
    }
}

impl<'a> Identities<'a> {
    fn add(&mut self, child: &Child<'a>, kind: &Kind) {
        let numbers = std::array::from_fn(|n| {
            let values = element_keys::values(child.element, kind.parts(n)?)?;
            let new = self.sharing.len();
            let number = *self.numbers.entry((n, values)).or_insert(new);
            match self.sharing.get_mut(number) {
                Some(sharing) => sharing.others.push(child.member),
                None => self.sharing.push(Sharing {
                    first: child.member,
                    others: Vec::new(),
                }),
            }
            Some(number)
        });
        self.of.push(numbers);
    }

    /// The number of each identity in another family, if that has it.
    pub(super) fn in_terms_of(&self, other: &Identities<'_>) -> Vec<Option<usize>> {
        let mut theirs = vec![None; self.sharing.len()];
        for (identity, number) in &self.numbers {
            theirs[*number] = other.numbers.get(identity).copied();
        }
        theirs
    }

    /// The number of a member's identity, by alternative.
    pub(super) fn of(&self, member: usize) -> &[Option<usize>; ALTERNATIVES] {
        &self.of[member]
    }

    /// The members that share an identity.
    pub(super) fn sharing(&self, number: usize) -> &Sharing {
        &self.sharing[number]
    }
}

impl Sharing {
    fn count(&self) -> usize {
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

impl Namesakes {
    fn of(first: usize, name: &str) -> Namesakes {
        Namesakes {
            kind: element_keys::kind(name),
            first,
            last: first,
            count: 1,
            mixed: false,
            manifold: OnceCell::new(),
        }
    }
}
