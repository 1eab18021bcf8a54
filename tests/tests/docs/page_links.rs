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

pub(crate) fn check_targets(path: &str) {
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
            let there = anchors.any(|there| there == anchor);
            assert!(there, "{path}: {file} has no heading #{anchor}");
        }
    }
}

/// Checks that the script lists each page: `entry DEPTH PATH`, or `for page in PATTERN`, with one `*` in the pattern.
pub(crate) fn check_book(script: &str) {
    let text = source(script);
    let listed = text.lines().filter_map(|line| {
        let words: Vec<_> = line.split([' ', ';']).collect();
        match words[..] {
            ["entry", _, path] => Some(path),
            ["for", "page", "in", path, ..] if words.contains(&"entry") => Some(path),
            _ => None,
        }
    });
    let listed: Vec<_> = listed.collect();
    let matches = |pattern: &str, path: &str| match pattern.split_once('*') {
        Some((start, end)) => path
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(end))
            .is_some_and(|name| end.contains('/') || !name.contains('/')),
        None => pattern == path,
    };
    for path in pages() {
        let is_listed = listed.iter().any(|pattern| matches(pattern, &path));
        assert!(is_listed, "{script} has no `entry` for {path}");
    }
}

/// The anchor that GitHub generates for a heading.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Checks that each page below a directory is linked from the index, or from the index of its own directory.
pub(crate) fn check_index(index: &str, below: &str) {
    for path in pages() {
        let Some(name) = path.strip_prefix(below).filter(|_| path != index) else {
            continue;
        };
        let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
        let own = format!("{below}{directory}/README.md");
        let linked = source(index).contains(&format!("]({name}"))
            || (!directory.is_empty() && source(&own).contains(&format!("]({file}")));
        assert!(linked, "{index} does not lead to {path}");
    }
}
