//! Checks that a page whose commands replace names with `sed` uses the new names.

use crate::page_blocks::source;

/// Checks that a page whose commands replace names with `sed` has no annotation or image with a replaced name.
fn check_replaced_names(path: &str) {
    let text = source(path);
    let replaced = text.split("s#").skip(1);
    let replaced = replaced.filter_map(|rest| rest.split_once('#'));
    let prefix = |name: &str| format!("{}/", name.replace('\\', "").trim_end_matches('/'));
    let prefixes: Vec<_> = replaced.map(|(name, _)| prefix(name)).collect();
    assert!(prefixes.len() > 1, "{path} replaces {prefixes:?}");
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        let found = prefixes.iter().find(|prefix| line.contains(*prefix));
        assert_eq!(
            found, None,
            "{path}:{line_number}: the commands of this page replace that"
        );
    }
}

#[test]
fn the_guide_uses_the_names_that_it_puts_into_the_policies() {
    check_replaced_names("docs/guide.md");
}
