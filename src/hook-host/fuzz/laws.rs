//! A property of any input. The fuzz target and the test that replays its corpus call the same function, which panics
//! if the property does not hold.
//!
//! `cargo +nightly fuzz run grants -- -dict=../domain-xml/fuzz/xml.dict -max_len=700`, in the
//! directory of hook-host. New findings go into `corpus/grants` under a name that says what they are.

#[path = "../../domain-xml/fuzz/input.rs"]
mod input;

use domain_xml::{PathPattern, diff};
use hook_host::policy::permission::{Checker, Permission};

use input::{halves, text, two_documents};

/// A path and two documents, split by zero bytes: no wildcard permits a dangerous change, nothing
/// permits a reserved one, and what `**` permits is a change to something that is neither.
pub fn grants(input: &[u8]) {
    let (path, documents) = halves(input);
    let (Some(path), Some((before, after))) = (text(path), two_documents(documents)) else {
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
