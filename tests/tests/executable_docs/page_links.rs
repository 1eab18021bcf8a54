//! Checks links between pages.

use tests::binaries::workspace;

use crate::page_blocks::{page, pages, source};

/// The link targets of a page within this project: file and anchor.
fn links(path: &str) -> Vec<(String, Option<String>)> {
    let prose = page(path).prose;
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://"))
        .map(|target| match target.split_once('#') {
            Some((file, anchor)) => (file.to_owned(), Some(anchor.to_owned())),
            None => (target.to_owned(), None),
        })
        .collect()
}

/// Checks that the targets of all links on a page exist.
fn check_targets(path: &str) {
    for (file, anchor) in links(path) {
        let base = workspace().join(path);
        let target = match file.as_str() {
            "" => base,
            file => base.parent().unwrap().join(file),
        };
        assert!(target.exists(), "{path}: {file} leads nowhere");
        if let Some(anchor) = anchor {
            let text = std::fs::read_to_string(&target).unwrap();
            let headings = text.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(anchor_of);
            let has_anchor = anchors.any(|name| name == anchor);
            assert!(has_anchor, "{path}: {file} has no heading #{anchor}");
        }
    }
}

/// Checks that the script of the book lists each page: `entry DEPTH PATH`, or `for page in PATTERN` with one `*` in it.
fn check_book(script: &str) {
    let text = source(script);
    let listed_pages = text.lines().filter_map(|line| {
        let words: Vec<_> = line.split([' ', ';']).collect();
        match words[..] {
            ["entry", _, path] => Some(path),
            ["for", "page", "in", path, ..] if words.contains(&"entry") => Some(path),
            _ => None,
        }
    });
    let listed_pages: Vec<_> = listed_pages.collect();
    let matches = |pattern: &str, path: &str| match pattern.split_once('*') {
        Some((start, end)) => path
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(end))
            .is_some_and(|name| end.contains('/') || !name.contains('/')),
        None => pattern == path,
    };
    for path in pages() {
        let is_listed = listed_pages.iter().any(|pattern| matches(pattern, &path));
        assert!(is_listed, "{script} has no `entry` for {path}");
    }
}

/// The anchor that GitHub generates for a heading.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let anchor = text
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    anchor.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Checks that each page below a directory is linked from the index, or from the index of its own directory.
fn check_index(index: &str, below: &str) {
    for path in pages() {
        let Some(name) = path.strip_prefix(below).filter(|_| path != index) else {
            continue;
        };
        let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
        let directory_index = format!("{below}{directory}/README.md");
        let is_linked = source(index).contains(&format!("]({name}"))
            || (!directory.is_empty() && source(&directory_index).contains(&format!("]({file}")));
        assert!(is_linked, "{index} does not lead to {path}");
    }
}

#[test]
fn every_link_has_a_target() {
    let other_pages = ["ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"].map(str::to_owned);
    for path in pages().into_iter().chain(other_pages) {
        check_targets(&path);
    }
}

#[test]
fn every_page_is_in_the_index() {
    check_index("docs/README.md", "docs/");
}

#[test]
fn every_page_is_in_the_book() {
    check_book("scripts/build-book");
}
