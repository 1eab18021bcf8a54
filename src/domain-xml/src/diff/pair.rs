//! Which child before is which child after.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use super::key::{self, Keys, Parts};
use super::same;
use super::scope::{self, Name, Scope};
use super::trail::{Place, Within};
use crate::Element;

/// No element has more alternatives than this.
const ALTERNATIVES: usize = 3;

/// How far to look for an element with the same content, and how large it may be; devices without
/// an identity are few and small.
const LOOK_AHEAD: usize = 8;
const ALIKE: usize = 64;

/// The children of one element, with what identifies them.
pub(crate) struct Siblings<'a> {
    pub(crate) list: Vec<Child<'a>>,
    /// By [`Element::canonical_name`], the name that paths know.
    namesakes: HashMap<&'a str, Namesakes<'a>>,
    /// The children that share an identity.
    by_key: HashMap<Key<'a>, Vec<usize>>,
}

/// The children of one name.
struct Namesakes<'a> {
    count: usize,
    name: Name<'a>,
    /// Whether one namespace hides behind the prefix of another.
    mixed: bool,
    /// The alternatives that some of them have several times, so that no predicate tells.
    manifold: [bool; ALTERNATIVES],
}

pub(crate) struct Child<'a> {
    pub(super) element: &'a Element,
    /// What prefixes mean inside it.
    pub(super) scope: Option<Rc<Scope>>,
    name: Name<'a>,
    nth: usize,
    keys: Keys,
    values: [Option<Vec<Cow<'a, str>>>; ALTERNATIVES],
}

type Key<'a> = (usize, Name<'a>, Vec<Cow<'a, str>>);

impl<'a> Siblings<'a> {
    pub(crate) fn of(parent: &'a Element, scope: Option<&Rc<Scope>>) -> Siblings<'a> {
        let mut siblings = Siblings {
            list: Vec::new(),
            namesakes: HashMap::new(),
            by_key: HashMap::new(),
        };
        for element in parent.children() {
            let mut child = Child::new(element, scope);
            let namesakes = siblings.namesakes.entry(element.canonical_name());
            let namesakes = namesakes.or_insert_with(|| Namesakes {
                count: 0,
                name: child.name.clone(),
                mixed: false,
                manifold: [false; ALTERNATIVES],
            });
            namesakes.count += 1;
            namesakes.mixed |= namesakes.name != child.name;
            child.nth = namesakes.count;
            for (n, parts) in child.keys.alternatives.iter().enumerate() {
                namesakes.manifold[n] |=
                    child.values[n].is_none() && key::is_manifold(element, parts);
            }
            for key in child.all_keys() {
                siblings
                    .by_key
                    .entry(key)
                    .or_default()
                    .push(siblings.list.len());
            }
            siblings.list.push(child);
        }
        siblings
    }

    /// The step of a path that leads to a child, and to no other.
    pub(super) fn step(&self, at: usize) -> Within<'a> {
        let child = &self.list[at];
        let namesakes = self.namesakes.get(child.element.canonical_name());
        let only = namesakes.is_some_and(|namesakes| namesakes.count == 1);
        let of_one_kind = namesakes.is_some_and(|namesakes| !namesakes.mixed);
        let place = if only && child.keys.only_child_is_itself {
            Place::Only
        } else if let (true, Some((parts, values))) = (of_one_kind, self.own_key(child)) {
            Place::Key(parts, values)
        } else if only {
            Place::Only
        } else {
            Place::Nth(child.nth)
        };
        Within {
            element: child.element,
            index: at,
            place,
        }
    }

    /// The best identity that no sibling shares.
    fn own_key(&self, child: &Child<'a>) -> Option<(Parts, Vec<Cow<'a, str>>)> {
        let manifold = self.namesakes.get(child.element.canonical_name())?.manifold;
        let mut alternatives = child.keys.alternatives.iter().enumerate();
        let (at, parts) =
            alternatives.find(|(at, _)| !manifold[*at] && self.sharing(child, *at).len() == 1)?;
        Some((parts, child.values[at].clone()?))
    }

    /// Whether predicates cannot tell a child from its siblings for sure: only its position
    /// does, it shares its identity, or `covers` says that they ask for an identity that it
    /// shares or does not have.
    pub(crate) fn is_ambiguous(&self, at: usize, covers: impl Fn(Parts) -> bool) -> bool {
        let Some(child) = self.list.get(at) else {
            return true;
        };
        let by_position = matches!(self.step(at).place, Place::Nth(_));
        let best = (0..ALTERNATIVES).find(|n| child.values[*n].is_some());
        let shared = best.is_some_and(|best| self.sharing(child, best).len() > 1);
        let namesakes = self.namesakes.get(child.element.canonical_name());
        let manifold = namesakes.map_or([true; ALTERNATIVES], |namesakes| namesakes.manifold);
        let mut asked = child.keys.alternatives.iter().enumerate();
        let asked = asked
            .any(|(n, parts)| covers(parts) && (manifold[n] || self.sharing(child, n).len() != 1));
        by_position || shared || asked
    }

    fn is_only(&self, child: &Child<'_>) -> bool {
        self.namesakes
            .get(child.element.canonical_name())
            .is_some_and(|namesakes| namesakes.count == 1)
    }

    fn sharing(&self, child: &Child<'a>, alternative: usize) -> &[usize] {
        let key = child.key(alternative);
        key.and_then(|key| self.by_key.get(&key))
            .map_or(&[], Vec::as_slice)
    }
}

impl<'a> Child<'a> {
    fn new(element: &'a Element, scope: Option<&Rc<Scope>>) -> Child<'a> {
        let scope = scope::enter(scope, element);
        let name = Name::of(element, scope.as_ref());
        let keys = key::keys(element.canonical_name());
        let values = std::array::from_fn(|n| key::values(element, keys.alternatives.get(n)?));
        Child {
            element,
            scope,
            name,
            nth: 1,
            keys,
            values,
        }
    }

    fn key(&self, alternative: usize) -> Option<Key<'a>> {
        Some((
            alternative,
            self.name.clone(),
            self.values[alternative].clone()?,
        ))
    }

    fn all_keys(&self) -> impl Iterator<Item = Key<'a>> {
        (0..ALTERNATIVES).filter_map(|alternative| self.key(alternative))
    }

    /// Whether nothing says that the two are different things.
    fn is_compatible(&self, other: &Child<'_>) -> bool {
        self.values
            .iter()
            .zip(&other.values)
            .all(|pair| match pair {
                (Some(a), Some(b)) => a == b,
                _ => true,
            })
    }
}

/// For each child before, its index after.
pub(super) fn pair(before: &Siblings<'_>, after: &Siblings<'_>) -> Vec<Option<usize>> {
    let mut pairing = Pairing {
        before,
        after,
        partner: vec![None; before.list.len()],
        taken: vec![false; after.list.len()],
    };
    pairing.by_unique_key();
    pairing.by_shared_key();
    pairing.by_content();
    pairing.by_order();
    pairing.partner
}

struct Pairing<'s, 'a, 'b> {
    before: &'s Siblings<'a>,
    after: &'s Siblings<'b>,
    partner: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl Pairing<'_, '_, '_> {
    fn join(&mut self, old: usize, new: usize) {
        self.partner[old] = Some(new);
        self.taken[new] = true;
    }

    /// An identity that only one child has on either side.
    fn by_unique_key(&mut self) {
        for alternative in 0..ALTERNATIVES {
            for (old, child) in self.before.list.iter().enumerate() {
                if self.partner[old].is_some() || self.before.sharing(child, alternative).len() != 1
                {
                    continue;
                }
                let key = child.key(alternative);
                if let Some([new]) = key
                    .and_then(|key| self.after.by_key.get(&key))
                    .map(Vec::as_slice)
                    && !self.taken[*new]
                {
                    self.join(old, *new);
                }
            }
        }
    }

    /// Children that share an identity pair in their order.
    fn by_shared_key(&mut self) {
        for alternative in 0..ALTERNATIVES {
            let mut next: HashMap<Key<'_>, usize> = HashMap::new();
            for old in 0..self.before.list.len() {
                if self.partner[old].is_some() {
                    continue;
                }
                let Some(key) = self.before.list[old].key(alternative) else {
                    continue;
                };
                let Some(candidates) = self.after.by_key.get(&key) else {
                    continue;
                };
                let at = next.entry(key).or_insert(0);
                while candidates.get(*at).is_some_and(|new| self.taken[*new]) {
                    *at += 1;
                }
                if let Some(new) = candidates.get(*at) {
                    self.join(old, *new);
                }
            }
        }
    }

    /// What nothing identifies is still itself when nothing in it differs, a few places on: a
    /// device that comes before others of its kind changes none of them.
    fn by_content(&mut self) {
        let mut left: HashMap<&Name<'_>, Vec<usize>> = HashMap::new();
        for (new, child) in self.after.list.iter().enumerate() {
            if !self.taken[new] {
                left.entry(&child.name).or_default().push(new);
            }
        }
        let mut next: HashMap<&Name<'_>, usize> = HashMap::new();
        let mut joined = Vec::new();
        for (old, child) in self.before.list.iter().enumerate() {
            let (None, Some(candidates)) = (self.partner[old], left.get(&child.name)) else {
                continue;
            };
            let at = next.entry(&child.name).or_insert(0);
            let mut ahead = candidates.iter().skip(*at).take(LOOK_AHEAD);
            let alike = |new: &usize| {
                let other = &self.after.list[*new];
                let theirs = (other.element, other.scope.clone());
                same::is_alike((child.element, child.scope.clone()), theirs, ALIKE)
            };
            if let Some(n) = ahead.position(alike) {
                joined.push((old, candidates[*at + n]));
                *at += n + 1;
            }
        }
        for (old, new) in joined {
            self.join(old, new);
        }
    }

    /// What is left pairs in order within its name, unless an identity speaks against it.
    fn by_order(&mut self) {
        let mut left: HashMap<&Name<'_>, Vec<usize>> = HashMap::new();
        for (new, child) in self
            .after
            .list
            .iter()
            .enumerate()
            .filter(|(new, _)| !self.taken[*new])
        {
            left.entry(&child.name).or_default().push(new);
        }
        let mut next: HashMap<&Name<'_>, usize> = HashMap::new();
        let mut joined = Vec::new();
        for (old, child) in self
            .before
            .list
            .iter()
            .enumerate()
            .filter(|(old, _)| self.partner[*old].is_none())
        {
            let Some(candidates) = left.get(&child.name) else {
                continue;
            };
            let at = next.entry(&child.name).or_insert(0);
            let Some(new) = candidates.get(*at) else {
                continue;
            };
            *at += 1;
            if child.is_compatible(&self.after.list[*new]) || self.is_only_child(old, *new) {
                joined.push((old, *new));
            }
        }
        for (old, new) in joined {
            self.join(old, new);
        }
    }

    fn is_only_child(&self, old: usize, new: usize) -> bool {
        let (was, is) = (&self.before.list[old], &self.after.list[new]);
        was.keys.only_child_is_itself && self.before.is_only(was) && self.after.is_only(is)
    }
}
