//! The order of hooks: final ones last, then by priority, then by directory and file in natural order.

use std::cmp::{Ordering, Reverse};

/// Compares texts in natural order, in which numbers compare by value: `hook-sidecar-2` comes before
/// `hook-sidecar-10`. Different texts never compare as equal.
pub(super) fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut l, mut r) = (left, right);
    loop {
        match (split_first_piece(l), split_first_piece(r)) {
            (None, None) => return left.cmp(right),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((a, rest_l)), Some((b, rest_r))) => match compare_pieces(a, b) {
                Ordering::Equal => (l, r) = (rest_l, rest_r),
                other => return other,
            },
        }
    }
}

/// Splits the first piece off: a run of digits, or a single other character.
fn split_first_piece(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let end = if digits > 0 {
        digits
    } else {
        text.chars().next()?.len_utf8()
    };
    Some(text.split_at(end))
}

fn compare_pieces(a: &str, b: &str) -> Ordering {
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    if !(is_number(a) && is_number(b)) {
        return a.cmp(b);
    }
    // Without leading zeros, the longer number is greater. The texts are not parsed, so numbers of any length compare.
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The properties that decide a hook's position at one hook point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rank<'a> {
    pub(super) is_final: bool,
    pub(super) priority: i32,
    pub(super) directory: &'a str,
    pub(super) file: &'a str,
}

impl Rank<'_> {
    /// Orders final hooks behind all others, then by descending priority, then by directory, then by file, both in natural order.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.is_final
            .cmp(&other.is_final)
            .then_with(|| Reverse(self.priority).cmp(&Reverse(other.priority)))
            .then_with(|| natural_order(self.directory, other.directory))
            .then_with(|| natural_order(self.file, other.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_by_value() {
        let mut names = [
            "hook-sidecar-10",
            "hook-sidecar-2",
            "hook",
            "hook-sidecar-02",
            "b",
            "hook-sidecar-2a",
        ];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(
            names,
            [
                "b",
                "hook",
                "hook-sidecar-02",
                "hook-sidecar-2",
                "hook-sidecar-2a",
                "hook-sidecar-10"
            ]
        );
        let huge = "9".repeat(400);
        assert_eq!(natural_order(&huge, &format!("1{huge}")), Ordering::Less);
    }

    proptest::proptest! {
        #[test]
        fn the_order_is_total(mut names in proptest::collection::vec("[0-2a-]{0,6}", 0..12)) {
            names.sort_by(|a, b| natural_order(a, b));
            for (i, left) in names.iter().enumerate() {
                for right in &names[i..] {
                    proptest::prop_assert_ne!(natural_order(left, right), Ordering::Greater);
                    proptest::prop_assert_eq!(natural_order(left, right), natural_order(right, left).reverse());
                    proptest::prop_assert_eq!(natural_order(left, right) == Ordering::Equal, left == right);
                }
            }
        }
    }

    #[test]
    fn priority_comes_before_directory() {
        let rank = |priority, directory| Rank {
            is_final: false,
            priority,
            directory,
            file: "a",
        };
        assert_eq!(rank(1, "z").compare(&rank(0, "a")), Ordering::Less);
        assert_eq!(rank(-1, "a").compare(&rank(0, "z")), Ordering::Greater);
        assert_eq!(rank(0, "h-2").compare(&rank(0, "h-10")), Ordering::Less);
        assert_eq!(
            rank(i32::MIN, "a").compare(&rank(i32::MAX, "a")),
            Ordering::Greater
        );
        let last = Rank {
            is_final: true,
            ..rank(i32::MAX, "a")
        };
        assert_eq!(last.compare(&rank(i32::MIN, "z")), Ordering::Greater);
    }
}
