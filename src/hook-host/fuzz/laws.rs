//! What must hold of any input. The fuzz target and the replay of its corpus in the tests call the
//! same function; it panics when the law is broken.
//!
//! `cargo +nightly fuzz run grants -- -dict=../domain-xml/fuzz/xml.dict -max_len=700`, in the
//! directory of hook-host. New findings go into `corpus/grants` under a name that says what they are.

use domain_xml::{Document, PathPattern, diff};
use hook_host::policy::permission::{Checker, Permission};

/// A path and two documents, split by zero bytes: no wildcard permits a dangerous change, nothing
/// permits a reserved one, and what `**` permits is a change to something that is neither.
pub fn grants(input: &[u8]) {
    let (path, documents) = halves(input);
    let (Some(path), Some((before, after))) = (text(path), two(documents)) else {
        return;
    };
    let all = PathPattern::parse("/*/**").expect("a path");
    let patterns: Vec<PathPattern> = PathPattern::parse(path).into_iter().collect();
    let everything = [all];
    let mut given = Checker::new(&patterns, &before, &after);
    let mut wide = Checker::new(&everything, &before, &after);
    for change in diff(&before, &after) {
        let dangerous = !wide.dangers(&change).is_empty();
        let granted = matches!(given.permits(&change), Permission::Granted { .. });
        let widely = matches!(wide.permits(&change), Permission::Granted { .. });
        assert!(!(dangerous && widely), "{change:?}");
        // Not dangerous and granted to somebody: then the widest grant gives it too.
        assert!(widely || dangerous || !granted, "{change:?} by {path}");
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn read(bytes: &[u8]) -> Option<Document> {
    Document::parse(text(bytes)?).ok()
}

fn two(bytes: &[u8]) -> Option<(Document, Document)> {
    let (before, after) = halves(bytes);
    Some((read(before)?, read(after)?))
}

fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}
