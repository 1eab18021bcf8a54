//! Checks that pages agree with themselves and with each other.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::page_blocks::{page, pages, source};

/// Checks that a page whose commands replace names with `sed` has no annotation or image with a replaced name.
pub(crate) fn check_replaced_names(path: &str) {
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

/// Checks that each policy on the pages that denies all paths also denies the other lists of `allow` that allow something
/// if they are absent, by the table of the reference.
pub(crate) fn check_policies_that_deny(reference: &str) {
    let text = source(reference);
    let rows = text.split("if the list is nowhere").nth(1).unwrap();
    let rows = rows
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut lists = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        lists.insert(cells[1].trim_matches('`').to_owned(), cells[3].to_owned());
    }
    let open = lists.iter();
    let open = open.filter(|(_, absent)| !["none", "nothing"].contains(&absent.as_str()));
    let open: Vec<_> = open.map(|(list, _)| list).collect();
    assert_eq!(open, ["config", "hookPoints", "migration", "paths"]);
    let mut checked = 0;
    for path in pages() {
        let blocks = page(&path).blocks.into_iter();
        for block in blocks.filter(|block| block.text.starts_with("# hook-policy.yaml")) {
            let policy: Value = serde_saphyr::from_str(&block.text).unwrap();
            let allow = &policy["allow"];
            if allow["paths"].as_array().is_some_and(Vec::is_empty) {
                checked += 1;
                for list in &open {
                    let line = block.line;
                    assert!(
                        allow[list].is_array(),
                        "{path}:{line}: {list} is not denied"
                    );
                }
            }
        }
    }
    assert!(checked > 1, "{checked} policies deny by default");
}
