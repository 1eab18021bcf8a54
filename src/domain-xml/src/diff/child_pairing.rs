//! Pairs the children of an element in the old document with its children in the new document.

use super::sibling_index::{ALTERNATIVES, IdentityIndex, NameGroup, SiblingIndex};
use super::subtree_equality;
use crate::host::Budget;

/// Maximum number of siblings that are searched for equal content: devices without an identity are few.
const LOOK_AHEAD: usize = 8;
/// Maximum number of elements that are compared for equal content: devices without an identity are small.
const MAX_COMPARED_ELEMENTS: usize = 64;

/// For each old child, the index of its partner among the new children. `same_namespaces`: prefixes stand for
/// the same namespaces around both.
pub(super) fn pair<'a>(
    before: &SiblingIndex<'a>,
    after: &SiblingIndex<'a>,
    same_namespaces: bool,
    budget: &Budget<'_>,
) -> Vec<Option<usize>> {
    let mut partner = vec![None; before.list.len()];
    for (old, new) in before.common_name_groups(after) {
        let mut pairing = Pairing {
            before,
            after,
            old,
            new,
            partner: Vec::new(),
            taken: Vec::new(),
            budget,
        };
        if pairing.is_unchanged(same_namespaces) {
            for (old, new) in old.members.iter().zip(&new.members) {
                partner[*old] = Some(*new);
            }
            continue;
        }
        pairing.pair();
        for (old, new) in pairing.pairs() {
            partner[old] = Some(new);
        }
    }
    partner
}

/// The children of one name. Members are counted within their name group.
struct Pairing<'s, 'a> {
    before: &'s SiblingIndex<'a>,
    after: &'s SiblingIndex<'a>,
    old: &'s NameGroup<'a>,
    new: &'s NameGroup<'a>,
    partner: Vec<Option<usize>>,
    taken: Vec<bool>,
    budget: &'s Budget<'s>,
}

impl Pairing<'_, '_> {
    fn pair(&mut self) {
        self.partner = vec![None; self.old.members.len()];
        self.taken = vec![false; self.new.members.len()];
        let before = self.before.identities(self.old);
        let after = self.after.identities(self.new);
        let theirs = before.numbers_in(after);
        self.by_unique_key(before, after, &theirs);
        self.by_shared_key(before, after, &theirs);
        self.by_content();
        self.by_order(before, after, &theirs);
    }

    /// The pairs, by index among all children.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let pairs = self.old.members.iter().zip(&self.partner);
        pairs.filter_map(|(old, new)| Some((*old, *self.new.members.get((*new)?)?)))
    }

    /// Whether pairing needs no identities: for an only child that is paired whatever its content, or if all members
    /// are unchanged.
    fn is_unchanged(&self, same_namespaces: bool) -> bool {
        if let ([old], [new]) = (&self.old.members[..], &self.new.members[..])
            && self.is_only_child(*old, *new)
        {
            return true;
        }
        let mut pairs = self.old.members.iter().zip(&self.new.members);
        let copied = |(old, new): (&usize, &usize)| {
            let (was, is) = (&self.before.list[*old], &self.after.list[*new]);
            subtree_equality::is_copy(was.element, is.element)
        };
        same_namespaces && self.old.members.len() == self.new.members.len() && pairs.all(copied)
    }

    fn set(&mut self, old: usize, new: usize) {
        self.partner[old] = Some(new);
        self.taken[new] = true;
    }

    /// Pairs by identities that only one child has on each side.
    fn by_unique_key(
        &mut self,
        before: &IdentityIndex<'_>,
        after: &IdentityIndex<'_>,
        theirs: &[Option<usize>],
    ) {
        for alternative in 0..ALTERNATIVES {
            for old in 0..self.partner.len() {
                if let (None, Some(number)) =
                    (self.partner[old], before.numbers_of(old)[alternative])
                    && before.members_of(number).only().is_some()
                    && let Some(their) = theirs[number]
                    && let Some(new) = after.members_of(their).only()
                    && !self.taken[new]
                {
                    self.set(old, new);
                }
            }
        }
    }

    /// Pairs children that share an identity, in their order.
    fn by_shared_key(
        &mut self,
        before: &IdentityIndex<'_>,
        after: &IdentityIndex<'_>,
        theirs: &[Option<usize>],
    ) {
        for alternative in 0..ALTERNATIVES {
            let mut next = vec![0; theirs.len()];
            for old in 0..self.partner.len() {
                if let (None, Some(number)) =
                    (self.partner[old], before.numbers_of(old)[alternative])
                    && let Some(their) = theirs[number]
                {
                    let candidates = after.members_of(their);
                    let at = &mut next[number];
                    while candidates.get(*at).is_some_and(|new| self.taken[new]) {
                        *at += 1;
                    }
                    if let Some(new) = candidates.get(*at) {
                        self.set(old, new);
                    }
                }
            }
        }
    }

    /// The members after that have no partner yet.
    fn unpaired(&self) -> Vec<usize> {
        (0..self.taken.len())
            .filter(|new| !self.taken[*new])
            .collect()
    }

    /// Pairs children without an identity by equal content, a few siblings ahead. So a device that is inserted before
    /// others of its kind does not change them.
    fn by_content(&mut self) {
        let left = self.unpaired();
        let mut next = 0;
        for old in 0..self.partner.len() {
            if self.partner[old].is_some() {
                continue;
            }
            let was = self.old.members[old];
            let mut ahead = left.iter().skip(next).take(LOOK_AHEAD);
            if let Some(n) = ahead.position(|new| self.is_equivalent(was, self.new.members[*new])) {
                self.set(old, left[next + n]);
                next += n + 1;
            }
        }
    }

    fn is_equivalent(&self, old: usize, new: usize) -> bool {
        let (was, is) = (&self.before.list[old], &self.after.list[new]);
        let was = (was.element, was.scope.clone());
        let is = (is.element, is.scope.clone());
        subtree_equality::is_equivalent(was, is, MAX_COMPARED_ELEMENTS, self.budget)
    }

    /// Pairs the rest in order, unless their identities differ.
    fn by_order(
        &mut self,
        before: &IdentityIndex<'_>,
        after: &IdentityIndex<'_>,
        theirs: &[Option<usize>],
    ) {
        let mut left = self.unpaired().into_iter();
        for old in 0..self.partner.len() {
            if self.partner[old].is_some() {
                continue;
            }
            let Some(new) = left.next() else {
                return;
            };
            let mut numbers = before.numbers_of(old).iter().zip(after.numbers_of(new));
            let compatible = numbers.all(|(was, is)| match (was, is) {
                (Some(was), Some(is)) => theirs[*was] == Some(*is),
                _ => true,
            });
            if compatible || self.is_only_child(self.old.members[old], self.new.members[new]) {
                self.set(old, new);
            }
        }
    }

    fn is_only_child(&self, old: usize, new: usize) -> bool {
        let kind = self.before.kind(old);
        kind.only_child_is_itself && self.before.is_only(old) && self.after.is_only(new)
    }
}

// Which of the paired children have moved.
//
// libvirt reads the children of an element by name, so only the order among children of one name counts.

/// Whether each child before has moved among the children of its name. `partner` is each child's index after, or `None`
/// if it was removed.
pub(super) fn moved_within_groups(
    name_groups: &[NameGroup<'_>],
    partner: &[Option<usize>],
) -> Vec<bool> {
    let mut all = vec![false; partner.len()];
    for name_group in name_groups
        .iter()
        .filter(|name_group| name_group.members.len() > 1)
    {
        let in_group: Vec<_> = name_group.members.iter().map(|at| partner[*at]).collect();
        if in_group.iter().flatten().is_sorted() {
            continue;
        }
        for (at, moved) in name_group.members.iter().zip(moved(&in_group)) {
            all[*at] = moved;
        }
    }
    all
}

/// Whether each child before has moved, with the fewest moves that turn one order into the other. `partner` is each
/// child's index after, or `None` if it was removed.
fn moved(partner: &[Option<usize>]) -> Vec<bool> {
    // Longest increasing subsequence: `tails[n]` is where the best run of length n + 1 ends.
    let mut tails: Vec<usize> = Vec::new();
    let mut previous = vec![None; partner.len()];
    for (at, target) in partner.iter().enumerate() {
        let Some(target) = target else { continue };
        let length = tails.partition_point(|tail| partner[*tail] < Some(*target));
        previous[at] = length.checked_sub(1).map(|n| tails[n]);
        if length == tails.len() {
            tails.push(at);
        } else {
            tails[length] = at;
        }
    }
    let mut moved: Vec<bool> = partner.iter().map(Option::is_some).collect();
    let mut at = tails.last().copied();
    while let Some(kept) = at {
        moved[kept] = false;
        at = previous[kept];
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn fewest_possible_children_count_as_moved() {
        let moves = |order: &[usize]| moved(&order.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(moves(&[0, 1, 2]), [false, false, false]);
        assert_eq!(moves(&[1, 2, 3, 0]), [false, false, false, true]);
        assert_eq!(moves(&[3, 0, 1, 2]), [true, false, false, false]);
        assert_eq!(moves(&[]), [false; 0]);
        assert_eq!(
            moved(&[None, Some(1), None, Some(0)])
                .iter()
                .filter(|moved| **moved)
                .count(),
            1
        );
    }
}
