//! The edit distance of two names.

/// The number of characters that are missing, added, replaced or swapped with their neighbour.
pub(super) fn edit_distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    let at = |rows: &[Vec<usize>], row: usize, column: usize| {
        let value = rows.get(row).and_then(|row| row.get(column));
        value.copied().unwrap_or(usize::MAX / 2)
    };
    for (row, a) in (1..).zip(&left) {
        rows.push(vec![row]);
        for (column, b) in (1..).zip(&right) {
            let replaced = at(&rows, row - 1, column - 1) + usize::from(a != b);
            let moved = at(&rows, row - 1, column).min(at(&rows, row, column - 1)) + 1;
            let is_swapped = row > 1
                && column > 1
                && left.get(row - 2) == Some(b)
                && right.get(column - 2) == Some(a);
            let swapped = match is_swapped {
                true => at(&rows, row - 2, column - 2) + 1,
                false => usize::MAX,
            };
            let least = replaced.min(moved).min(swapped);
            rows.last_mut()
                .into_iter()
                .for_each(|last| last.push(least));
        }
    }
    at(&rows, left.len(), right.len())
}
