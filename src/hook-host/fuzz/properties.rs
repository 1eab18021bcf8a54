//! Properties of any input. The fuzz targets and the tests that replay their corpora call these functions, which panic
//! if a property does not hold.
//!
//! `cargo +nightly fuzz run grants -- -dict=../domain-xml/fuzz/xml.dict -max_len=700`, in the
//! directory of hook-host. New findings go into `corpus/TARGET` under a name that says what they are.

#[path = "../../domain-xml/fuzz/input.rs"]
mod input;

use std::fmt::Display;
use std::path::Path;

use domain_xml::{PathPattern, diff};
use hook_host::policy::permission::{Checker, Permission};
use hook_host::policy::{HookYaml, OperatorPolicy};
use hook_host::record::Record;
use hook_host::{Description, is_printable};

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

/// What a module says of itself: a description within its limits, or an error that can be printed.
pub fn description(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Description::parse(text) {
        Ok(description) => {
            assert!(description.name.chars().all(is_printable));
            assert!(description.version.chars().all(is_printable));
            let Some(wishes) = description.wishes else {
                return;
            };
            assert!(
                wishes.paths.len() <= 256 && wishes.config.len() <= 256 && wishes.dirs.len() <= 256
            );
            for path in &wishes.paths {
                let repeated = PathPattern::parse(path.as_str()).expect("a path");
                assert_eq!(repeated.as_str(), path.as_str());
            }
            assert!(wishes.dirs.iter().all(|dir| dir.is_absolute()));
        }
        Err(error) => printable_error(&error),
    }
}

/// The text of an operator's policy, or after a zero byte that of a hook.yaml: read or refused at a place, and what is
/// read can be told.
pub fn policy_file(input: &[u8]) {
    let (path, file) = (Path::new("policy.yaml"), halves(input));
    if let Some(text) = text(file.0) {
        match OperatorPolicy::parse(path, text) {
            Ok(policy) => {
                let summary = policy.summary();
                for warning in &summary.warnings {
                    assert!(
                        warning.place.starts_with("policy.yaml"),
                        "{}",
                        warning.place
                    );
                }
            }
            Err(error) => {
                printable_error(&error);
                assert!(error.to_string().contains("policy.yaml"), "{error}");
            }
        }
    }
    if let Some(text) = text(file.1)
        && let Err(error) = HookYaml::parse(path, text)
    {
        printable_error(&error);
    }
}

/// A record file: read and written again it is the same, or it is refused with an error that can be printed.
pub fn record(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Record::parse(text) {
        Ok(record) => {
            let written = serde_json::to_string(&record).expect("JSON");
            assert_eq!(Record::parse(&written).expect("a record"), record);
        }
        Err(error) => printable_error(&error),
    }
}

/// Several lines are allowed, since each is printed as a line of its own.
fn printable_error(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() < 16 << 10, "{}", text.len());
    let lies = text
        .chars()
        .find(|char| *char != '\n' && !is_printable(*char));
    assert_eq!(lies, None, "{text:?}");
}
