//! Checks that each policy on the pages that denies by default denies every list.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::page_blocks::{page, pages, source};

/// Checks each policy on the pages that denies all paths: it also denies the other lists of `allow` that, according to
/// the table of the reference, allow something if they are absent.
fn check_policies_that_deny(reference: &str) {
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
    let permissive = lists.iter();
    let permissive =
        permissive.filter(|(_, absent)| !["none", "nothing"].contains(&absent.as_str()));
    let permissive: Vec<_> = permissive.map(|(list, _)| list).collect();
    assert_eq!(permissive, ["config", "hookPoints", "migration", "paths"]);
    let mut checked = 0;
    for path in pages() {
        let blocks = page(&path).blocks.into_iter();
        for block in blocks.filter(|block| block.text.starts_with("# hook-policy.yaml")) {
            let policy: Value = serde_saphyr::from_str(&block.text).unwrap();
            let allow = &policy["allow"];
            if allow["paths"].as_array().is_some_and(Vec::is_empty) {
                checked += 1;
                for list in &permissive {
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

#[test]
fn policies_that_deny_by_default_deny_every_list() {
    check_policies_that_deny("docs/policy.md");
}
