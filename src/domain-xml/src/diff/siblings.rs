//! The children of one element, and the keys that distinguish them.
//!
//! Identities (values of keys) are computed per name and on demand, since most children are the only ones of their
//! name and need none.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::element_paths::{PathStep, Selector};
use super::key::{self, Kind, Parts, Values};
use super::namespaces::{self, Name, Scope};
use crate::Element;

/// The most alternative keys of an element.
pub(super) const ALTERNATIVES: usize = 3;

pub(crate) struct Siblings<'a> {
    pub(super) list: Vec<Child<'a>>,
    /// Children by the name that paths use, [`Element::canonical_name`].
    namesakes: Vec<Namesakes>,
    /// Children of equal names, whatever prefix they are written with.
    families: Vec<Family<'a>>,
    family_of: HashMap<Name<'a>, usize>,
}

pub(super) struct Child<'a> {
    pub(super) element: &'a Element,
    /// The namespaces inside the child.
    pub(super) scope: Option<Rc<Scope>>,
    pub(super) kind: Kind,
    namesakes: usize,
    /// Position among its namesakes, from 1.
    nth: usize,
    family: usize,
    /// Index in its family.
    member: usize,
}

/// The children with one name in paths.
#[derive(Default)]
struct Namesakes {
    members: Vec<usize>,
    /// Whether a child is written with the prefix of another namespace.
    mixed: bool,
    /// Alternatives that a child has several times, so that predicates cannot distinguish the children.
    manifold: OnceCell<[bool; ALTERNATIVES]>,
}

/// The children with one name and namespace.
pub(super) struct Family<'a> {
    pub(super) name: Name<'a>,
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
    sharing: Vec<Vec<usize>>,
}

/// The values of an alternative key.
pub(super) type Identity<'a> = (usize, Values<'a>);

impl<'a> Siblings<'a> {
    pub(crate) fn of(parent: &'a Element, scope: Option<&Rc<Scope>>) -> Siblings<'a> {
        let mut siblings = Siblings {
            list: Vec::new(),
            namesakes: Vec::new(),
            families: Vec::new(),
            family_of: HashMap::new(),
        };
        let mut named = HashMap::new();
        for element in parent.children() {
            let scope = namespaces::enter(scope, element);
            let family = siblings.family(Name::of(element, scope.as_ref()));
            let namesakes = *named.entry(element.canonical_name()).or_insert_with(|| {
                siblings.namesakes.push(Namesakes::default());
                siblings.namesakes.len() - 1
            });
            siblings.add(element, scope, family, namesakes);
        }
        siblings
    }

    fn family(&mut self, name: Name<'a>) -> usize {
        *self.family_of.entry(name).or_insert_with_key(|name| {
            self.families.push(Family {
                name: name.clone(),
                members: Vec::new(),
                identities: OnceCell::new(),
            });
            self.families.len() - 1
        })
    }

    fn add(
        &mut self,
        element: &'a Element,
        scope: Option<Rc<Scope>>,
        family: usize,
        namesakes: usize,
    ) {
        let at = self.list.len();
        let (relatives, others) = (&mut self.families[family], &mut self.namesakes[namesakes]);
        let first = others.members.first();
        others.mixed |= first.is_some_and(|first| self.list[*first].family != family);
        relatives.members.push(at);
        others.members.push(at);
        self.list.push(Child {
            element,
            scope,
            kind: key::kind(element.canonical_name()),
            namesakes,
            nth: others.members.len(),
            family,
            member: relatives.members.len() - 1,
        });
    }

    /// How many children of its name stand before a child.
    pub(super) fn rank(&self, at: usize) -> usize {
        self.list[at].member
    }

    pub(super) fn families(&self) -> &[Family<'a>] {
        &self.families
    }

    pub(super) fn family_named(&self, name: &Name<'_>) -> Option<&Family<'a>> {
        self.families.get(*self.family_of.get(name)?)
    }

    /// The path step that selects a child and no other.
    pub(super) fn step(&self, at: usize) -> PathStep<'a> {
        let child = &self.list[at];
        let only = self.is_only(at);
        let by_key = || self.own_key(child).filter(|_| !self.namesakes(child).mixed);
        let selector = if only && child.kind.only_child_is_itself {
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
    fn own_key(&self, child: &Child<'a>) -> Option<(Parts, Values<'a>)> {
        let manifold = self.manifold(child);
        let mut alternatives = child.kind.alternatives.iter().enumerate();
        let own = |n: usize| !manifold[n] && self.sharing(child, n) == 1;
        let (_, parts) = alternatives.find(|(n, _)| own(*n))?;
        Some((parts, key::values(child.element, parts)?))
    }

    /// How predicates fail to distinguish a child from its siblings: whether always, because only its position does or
    /// it shares its identity; and the keys that it shares or lacks, which fail predicates that use them.
    pub(crate) fn ambiguity(&self, at: usize) -> (bool, Vec<Parts>) {
        let Some(child) = self.list.get(at) else {
            return (true, Vec::new());
        };
        let by_position = matches!(self.step(at).selector, Selector::Nth(_));
        let sharing = |n: usize| self.sharing(child, n);
        let best = (0..ALTERNATIVES).map(sharing).find(|sharing| *sharing > 0);
        let shared = best.is_some_and(|best| best > 1);
        let manifold = self.manifold(child);
        let alternatives = child.kind.alternatives.iter().enumerate();
        let failing = alternatives.filter(|(n, _)| manifold[*n] || sharing(*n) != 1);
        (
            by_position || shared,
            failing.map(|(_, parts)| *parts).collect(),
        )
    }

    /// Whether no sibling has its name.
    pub(super) fn is_only(&self, at: usize) -> bool {
        self.namesakes(&self.list[at]).members.len() == 1
    }

    fn namesakes(&self, child: &Child<'a>) -> &Namesakes {
        &self.namesakes[child.namesakes]
    }

    fn manifold(&self, child: &Child<'a>) -> [bool; ALTERNATIVES] {
        let namesakes = self.namesakes(child);
        *namesakes.manifold.get_or_init(|| {
            std::array::from_fn(|n| {
                let members = namesakes.members.iter().map(|at| &self.list[*at]);
                let mut unknown = members.filter(|member| self.sharing(member, n) == 0);
                unknown.any(|member| {
                    let parts = member.kind.parts(n);
                    parts.is_some_and(|parts| key::is_manifold(member.element, parts))
                })
            })
        })
    }

    /// The number of children with this child's identity, itself included; zero if it has none.
    fn sharing(&self, child: &Child<'a>, alternative: usize) -> usize {
        let identities = self.identities(&self.families[child.family]);
        let number = identities.of[child.member][alternative];
        number.map_or(0, |number| identities.sharing[number].len())
    }

    pub(super) fn identities<'s>(&'s self, family: &'s Family<'a>) -> &'s Identities<'a> {
        family.identities.get_or_init(|| {
            let mut identities = Identities::default();
            for at in &family.members {
                identities.add(&self.list[*at]);
            }
            identities
        })
    }
}

impl<'a> Identities<'a> {
    fn add(&mut self, child: &Child<'a>) {
        let numbers = std::array::from_fn(|n| {
            let values = key::values(child.element, child.kind.parts(n)?)?;
            let number = *self.numbers.entry((n, values)).or_insert_with(|| {
                self.sharing.push(Vec::new());
                self.sharing.len() - 1
            });
            self.sharing[number].push(child.member);
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
    pub(super) fn sharing(&self, number: usize) -> &[usize] {
        &self.sharing[number]
    }
}
