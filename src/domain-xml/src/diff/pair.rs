//! Which child before is which child after.

use super::same;
use super::siblings::{ALTERNATIVES, Family, Identities, Siblings};

/// How far to look for an element with the same content, and how large it may be; devices without
/// an identity are few and small.
const LOOK_AHEAD: usize = 8;
const ALIKE: usize = 64;

/// For each child before, its index after. `agreed`: prefixes mean the same around both.
pub(super) fn pair(
    before: &Siblings<'_>,
    after: &Siblings<'_>,
    agreed: bool,
) -> Vec<Option<usize>> {
    let mut partner = vec![None; before.list.len()];
    for old in before.families() {
        if let Some(new) = after.family_named(&old.name) {
            let mut pairing = Pairing::new(before, after, old, new);
            pairing.pair(agreed);
            for (old, new) in pairing.joined() {
                partner[old] = Some(new);
            }
        }
    }
    partner
}

/// The children of one name. Members are counted within their family.
struct Pairing<'s, 'a, 'b> {
    before: &'s Siblings<'a>,
    after: &'s Siblings<'b>,
    old: &'s Family<'a>,
    new: &'s Family<'b>,
    partner: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl<'s, 'a, 'b> Pairing<'s, 'a, 'b> {
    fn new(
        before: &'s Siblings<'a>,
        after: &'s Siblings<'b>,
        old: &'s Family<'a>,
        new: &'s Family<'b>,
    ) -> Self {
        Pairing {
            before,
            after,
            old,
            new,
            partner: vec![None; old.members.len()],
            taken: vec![false; new.members.len()],
        }
    }

    fn pair(&mut self, agreed: bool) {
        if self.is_the_same_list(agreed) {
            self.partner = (0..self.old.members.len()).map(Some).collect();
            return;
        }
        let before = self.before.identities(self.old);
        let after = self.after.identities(self.new);
        let theirs = before.in_terms_of(after);
        self.by_unique_key(before, after, &theirs);
        self.by_shared_key(before, after, &theirs);
        self.by_content();
        self.by_order(before, after, &theirs);
    }

    /// By index among all children.
    fn joined(&self) -> impl Iterator<Item = (usize, usize)> {
        let pairs = self.old.members.iter().zip(&self.partner);
        pairs.filter_map(|(old, new)| Some((*old, *self.new.members.get((*new)?)?)))
    }

    /// Whether nobody has to look for an identity: an only child that is itself whatever is in
    /// it, or members that are all as they were.
    fn is_the_same_list(&self, agreed: bool) -> bool {
        if let ([old], [new]) = (&self.old.members[..], &self.new.members[..])
            && self.is_only_child(*old, *new)
        {
            return true;
        }
        let mut pairs = self.old.members.iter().zip(&self.new.members);
        let copied = |(old, new): (&usize, &usize)| {
            let (was, is) = (&self.before.list[*old], &self.after.list[*new]);
            same::is_copy(was.element, is.element)
        };
        agreed && self.old.members.len() == self.new.members.len() && pairs.all(copied)
    }

    fn join(&mut self, old: usize, new: usize) {
        self.partner[old] = Some(new);
        self.taken[new] = true;
    }

    /// An identity that only one child has on either side.
    fn by_unique_key(
        &mut self,
        before: &Identities<'_>,
        after: &Identities<'_>,
        theirs: &[Option<usize>],
    ) {
        for alternative in 0..ALTERNATIVES {
            for old in 0..self.partner.len() {
                if let (None, Some(number)) = (self.partner[old], before.of(old)[alternative])
                    && let ([_], Some(their)) = (before.sharing(number), theirs[number])
                    && let [new] = after.sharing(their)
                    && !self.taken[*new]
                {
                    self.join(old, *new);
                }
            }
        }
    }

    /// Children that share an identity pair in their order.
    fn by_shared_key(
        &mut self,
        before: &Identities<'_>,
        after: &Identities<'_>,
        theirs: &[Option<usize>],
    ) {
        for alternative in 0..ALTERNATIVES {
            let mut next = vec![0; theirs.len()];
            for old in 0..self.partner.len() {
                if let (None, Some(number)) = (self.partner[old], before.of(old)[alternative])
                    && let Some(their) = theirs[number]
                {
                    let candidates = after.sharing(their);
                    let at = &mut next[number];
                    while candidates.get(*at).is_some_and(|new| self.taken[*new]) {
                        *at += 1;
                    }
                    if let Some(new) = candidates.get(*at) {
                        self.join(old, *new);
                    }
                }
            }
        }
    }

    /// The members after that have no partner yet.
    fn left(&self) -> Vec<usize> {
        (0..self.taken.len())
            .filter(|new| !self.taken[*new])
            .collect()
    }

    /// What nothing identifies is still itself when nothing in it differs, a few places on: a
    /// device that comes before others of its kind changes none of them.
    fn by_content(&mut self) {
        let left = self.left();
        let mut next = 0;
        for old in 0..self.partner.len() {
            if self.partner[old].is_some() {
                continue;
            }
            let was = self.old.members[old];
            let mut ahead = left.iter().skip(next).take(LOOK_AHEAD);
            if let Some(n) = ahead.position(|new| self.is_alike(was, self.new.members[*new])) {
                self.join(old, left[next + n]);
                next += n + 1;
            }
        }
    }

    fn is_alike(&self, old: usize, new: usize) -> bool {
        let (was, is) = (&self.before.list[old], &self.after.list[new]);
        let was = (was.element, was.scope.clone());
        same::is_alike(was, (is.element, is.scope.clone()), ALIKE)
    }

    /// What is left pairs in order, unless an identity speaks against it.
    fn by_order(
        &mut self,
        before: &Identities<'_>,
        after: &Identities<'_>,
        theirs: &[Option<usize>],
    ) {
        let mut left = self.left().into_iter();
        for old in 0..self.partner.len() {
            if self.partner[old].is_some() {
                continue;
            }
            let Some(new) = left.next() else {
                return;
            };
            let mut numbers = before.of(old).iter().zip(after.of(new));
            let compatible = numbers.all(|(was, is)| match (was, is) {
                (Some(was), Some(is)) => theirs[*was] == Some(*is),
                _ => true,
            });
            if compatible || self.is_only_child(self.old.members[old], self.new.members[new]) {
                self.join(old, new);
            }
        }
    }

    fn is_only_child(&self, old: usize, new: usize) -> bool {
        let kind = &self.before.list[old].kind;
        kind.only_child_is_itself && self.before.is_only(old) && self.after.is_only(new)
    }
}
