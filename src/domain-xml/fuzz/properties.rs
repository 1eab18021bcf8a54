//! Properties of any input. The fuzz targets and the tests that replay their corpora call these functions, which
//! panic if a property does not hold.
//!
//! `cargo +nightly fuzz run diff_apply -- -dict=fuzz/xml.dict -max_len=700`, in the directory of
//! domain-xml. What it finds goes into `corpus/TARGET` under a name that says what it is.

#[path = "input_documents.rs"]
mod input_documents;
#[path = "quick_xml_oracle.rs"]
mod quick_xml_oracle;

use domain_xml::host::{ApplyError, Change, ChangeKind, apply, diff};
use domain_xml::{Document, PathPattern};

use input_documents::{document, halves, text, two_documents};

/// Documents render byte for byte, also after an empty diff, and a reverted edit leaves no change.
pub fn round_trip(input: &[u8]) {
    let Some(document) = document(input) else {
        return;
    };
    assert_eq!(document.render().as_bytes(), input);
    let untouched = apply(&[], &document).expect("nothing to apply");
    assert_eq!(untouched.render().as_bytes(), input);
    // A fuzzer that sees comparisons learns the names below, and the edit would not be the only one to use them.
    if input.windows(9).any(|text| text == b"fuzz-fuzz") {
        return;
    }
    let mut edited = document.clone();
    let made = edited.root_mut().ensure_child("fuzz-fuzz");
    made.set_attr("a", "'\"<&>\n");
    // With the root's default namespace, if that is a known one.
    let called = made.canonical_name().to_owned();
    edited.root_mut().set_attr("fuzz-fuzz", "]]>");
    let repeated = Document::parse(&edited.render()).expect("an edit leaves a document");
    assert_eq!(diff(&edited, &repeated), []);
    edited.root_mut().remove_children(|child| child.is(&called));
    edited.root_mut().remove_attr("fuzz-fuzz");
    assert_eq!(diff(&document, &edited), []);
}

/// Two documents, split by a zero byte: their difference selects its places, and applied to the
/// first gives the second.
pub fn diff_apply(input: &[u8]) {
    let Some((before, after)) = two_documents(input) else {
        return;
    };
    law_of_apply(&before, &after);
    law_of_apply(&after, &before);
}

fn law_of_apply(before: &Document, after: &Document) {
    let changes = diff(before, after);
    for change in &changes {
        selects_one(change, before, after);
    }
    let applied = match apply(&changes, before) {
        Ok(applied) => applied,
        // Only prefixes that stand for nothing cannot be carried over.
        Err(ApplyError::Namespace { .. }) => return,
        Err(error) => panic!("{error}: {changes:#?}"),
    };
    let left = diff(&applied, after);
    assert!(left.is_empty(), "{left:#?} of {changes:#?} in {applied}");
}

fn selects_one(change: &Change, before: &Document, after: &Document) {
    let path = PathPattern::parse(&change.path).expect("the path of a change is a path");
    let place = match change.kind {
        ChangeKind::Inserted => after,
        _ => before,
    };
    let found = path.find_all(place.root()).len();
    assert_eq!(found, 1, "{} in {place}", change.path);
}

/// A path and a document, split by a zero byte: a path reads back as it was written, never
/// panics, selects only what stars select, and what `ensure` makes it finds.
pub fn path_pattern(input: &[u8]) {
    let (path, xml) = halves(input);
    let Some(path) = text(path) else {
        return;
    };
    let pattern = match PathPattern::parse(path) {
        Ok(pattern) => pattern,
        Err(error) => {
            assert!(error.column >= 1 && error.column <= path.chars().count() + 1);
            return;
        }
    };
    assert_eq!(pattern.to_string(), path);
    assert_eq!(PathPattern::parse(pattern.as_str()), Ok(pattern.clone()));
    let Some(mut document) = document(xml) else {
        return;
    };
    let found = pattern.find_all(document.root()).len();
    assert!(found <= document.find_all("**").expect("a path").len());
    if let Ok(made) = document.ensure(path) {
        let made = made.tag_name().to_owned();
        // Two predicates may contradict each other, and then nothing fits both.
        let found = document.find(path).expect("it parsed");
        assert!(found.is_none_or(|found| found.tag_name() == made) || path.contains('['));
    }
}

/// The parser and quick-xml accept the same texts, and read the same elements from them.
pub fn quick_xml_comparison(input: &[u8]) {
    if let Some(text) = text(input) {
        quick_xml_oracle::agrees(text);
    }
}
