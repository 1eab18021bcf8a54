//! Which of the paired children have moved.
//!
//! libvirt reads the children of an element by name, so only the order among children of one name counts.

use super::sibling_index::NameGroup;

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
