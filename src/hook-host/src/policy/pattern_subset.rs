//! Compares the texts of path patterns: whether one pattern selects a subset of another.

use domain_xml::PathPattern;

/// One step of a pattern.
#[derive(PartialEq)]
pub(super) struct Step<'a> {
    /// The name test.
    pub(super) name: &'a str,
    /// The predicates as they are written, without `]` and with single quotes.
    pub(super) predicates: Vec<String>,
}

/// Whether `wide` selects every node that `narrow` can select. The result is never wrongly true, but can
/// be wrongly false.
pub(super) fn is_superset(wide: &PathPattern, narrow: &PathPattern) -> bool {
    let (wide, narrow) = (steps(wide.as_str()), steps(narrow.as_str()));
    // covered[j]: the steps of `wide` so far select every node that the first j steps of `narrow` select.
    let mut covered = vec![false; narrow.len() + 1];
    covered[0] = true;
    for step in &wide {
        let mut next = vec![false; narrow.len() + 1];
        let descends = step.name == "**";
        next[0] = descends && covered[0];
        for (index, other) in narrow.iter().enumerate() {
            next[index + 1] = if descends {
                covered[index + 1] || next[index]
            } else {
                covered[index] && step.is_superset(other)
            };
        }
        covered = next;
    }
    covered[narrow.len()]
}

impl Step<'_> {
    /// The attributes that predicates of the form `[@NAME='VALUE']` require, with their values.
    pub(super) fn required_attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.predicates.iter().filter_map(|predicate| {
            let (name, value) = predicate.strip_prefix("[@")?.split_once('=')?;
            let value = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
            Some((name.trim(), value))
        })
    }

    fn is_superset(&self, narrow: &Self) -> bool {
        let selects_name = match (self.name, narrow.name) {
            (_, "**") => false,
            ("*", name) => !name.starts_with('@'),
            ("@*", name) => name.starts_with('@'),
            (wide, name) => match wide.strip_suffix(":*") {
                Some(prefix) => name
                    .strip_prefix(prefix)
                    .is_some_and(|n| n.starts_with(':')),
                None => wide == name,
            },
        };
        selects_name
            && self
                .predicates
                .iter()
                .all(|p| narrow.predicates.contains(p))
    }
}

/// The steps of a pattern or path.
pub(super) fn steps(pattern: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = pattern.trim_start_matches('/');
    while !rest.is_empty() {
        let (step, after) = split(rest, '/');
        steps.push(parse_step(step));
        rest = after;
    }
    steps
}

fn parse_step(text: &str) -> Step<'_> {
    let (name, mut rest) = text.split_at(text.find('[').unwrap_or(text.len()));
    let mut predicates = Vec::new();
    while !rest.is_empty() {
        let (predicate, after) = split(rest, ']');
        predicates.push(predicate.replace('"', "'"));
        rest = after;
    }
    Step {
        name: name.trim(),
        predicates,
    }
}

/// Splits at the first `end` outside of quotes; a `/` must be outside of predicates too.
fn split(text: &str, end: char) -> (&str, &str) {
    let (mut quote, mut depth) = (None, 0_usize);
    for (index, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == end && (end == ']' || depth == 0) => {
                return (&text[..index], &text[index + 1..]);
            }
            None => match c {
                '\'' | '"' => quote = Some(c),
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            },
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects_all_of(wide: &str, narrow: &str) -> bool {
        is_superset(
            &PathPattern::parse(wide).unwrap(),
            &PathPattern::parse(narrow).unwrap(),
        )
    }

    #[test]
    fn subsets_are_recognised_from_the_texts() {
        for (wide, narrow, expected) in [
            ("/domain/sysinfo/**", "/domain/sysinfo", true),
            ("/domain/sysinfo/**", "/domain/sysinfo/bios/@x", true),
            ("/domain/sysinfo/**", "/domain/sysinfo/**", true),
            ("/domain/**", "/domain/devices/**", true),
            ("/domain/devices/**", "/domain/**", false),
            ("/domain/*", "/domain/a", true),
            ("/domain/*", "/domain/@a", false),
            ("/domain/@*", "/domain/@a", true),
            ("/domain/*", "/domain/a/b", false),
            ("/domain/a", "/domain/*", false),
            (
                "/domain/**/@queues",
                "/domain/devices/disk/driver/@queues",
                true,
            ),
            ("/domain/a/b", "/domain/a[@x='/b]/']/b", true),
            ("/domain/a[@x='1']/b", "/domain/a/b", false),
            ("/domain/a[@x='1']/b", "/domain/a[@x=\"1\"][@y]/b", true),
            ("/domain/qemu:*", "/domain/qemu:commandline", true),
            ("/domain/qemu:*", "/domain/qemux", false),
        ] {
            assert_eq!(selects_all_of(wide, narrow), expected, "{wide} {narrow}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_subset_relation_is_reflexive_and_transitive(
            a in pattern(), b in pattern(), c in pattern()
        ) {
            proptest::prop_assert!(selects_all_of(&a, &a));
            if selects_all_of(&a, &b) && selects_all_of(&b, &c) {
                proptest::prop_assert!(selects_all_of(&a, &c), "{} {} {}", a, b, c);
            }
        }
    }

    fn pattern() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::strategy::Strategy;
        proptest::collection::vec("[ab]|\\*|\\*\\*|a\\[@x='1'\\]", 1..4)
            .prop_map(|steps| format!("/domain/{}", steps.join("/")))
    }
}
