//! Properties that hold for any input. The fuzz targets, and the tests that replay their corpora, call these functions.
//! A function panics if a property does not hold.
//!
//! `cargo +nightly fuzz run grants -- -dict=../domain-xml/fuzz/xml.dict -max_len=700`, in the
//! directory of hook-host. Add new findings to `corpus/TARGET`, with a name that describes them.

#[path = "../../domain-xml/fuzz/input_documents.rs"]
mod input_documents;

use std::fmt::Display;
use std::path::Path;

use domain_xml::PathPattern;
use domain_xml::host::diff;
use hook_host::policy::permission::{Checker, Permission};
use hook_host::policy::{HookYaml, OperatorPolicy};
use hook_host::record::Record;
use hook_host::{ConditionedPath, Description, is_printable};

use input_documents::{halves, text, two_documents};

/// Input: a path and two documents, separated by zero bytes. The pattern `/*/**` permits no dangerous change, and it
/// permits every harmless change that the path permits.
pub fn grants(input: &[u8]) {
    let (path, documents) = halves(input);
    let (Some(path), Some((before, after))) = (text(path), two_documents(documents)) else {
        return;
    };
    let all = PathPattern::parse("/*/**").expect("a path");
    let patterns = PathPattern::parse(path).into_iter();
    let patterns: Vec<ConditionedPath> = patterns.map(ConditionedPath::from).collect();
    let everything = [ConditionedPath::from(all)];
    let mut narrow = Checker::new(&patterns, &before, &after);
    let mut wide = Checker::new(&everything, &before, &after);
    for change in diff(&before, &after) {
        let dangerous = !wide.dangers(&change).is_empty();
        let granted = matches!(narrow.permits(&change), Permission::Granted { .. });
        let widely_granted = matches!(wide.permits(&change), Permission::Granted { .. });
        assert!(!(dangerous && widely_granted), "{change:?}");
        // The widest pattern permits every harmless change that another pattern permits.
        assert!(
            widely_granted || dangerous || !granted,
            "{change:?} by {path}"
        );
    }
}

/// Input: a module's description. It is parsed within its limits, or the error is printable.
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
                let written = serde_json::to_value(path).expect("JSON");
                let repeated: ConditionedPath = serde_json::from_value(written).expect("a path");
                assert_eq!(&repeated, path);
            }
            assert!(wishes.dirs.iter().all(|dir| dir.is_absolute()));
        }
        Err(error) => assert_printable(&error),
    }
}

/// Input: an operator's policy, then a zero byte and a `hook.yaml`. Each is parsed, or the error is printable. A policy
/// has a summary, and an error of a policy names the file.
pub fn policy_file(input: &[u8]) {
    let (path, file) = (Path::new("policy.yaml"), halves(input));
    if let Some(text) = text(file.0) {
        match OperatorPolicy::parse(path, text) {
            Ok(policy) => {
                // The same document with a tag is refused.
                let tagged = OperatorPolicy::parse(path, &format!("--- !local\n{text}"));
                assert!(tagged.is_err(), "{text:?}");
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
                assert_printable(&error);
                assert!(error.to_string().contains("policy.yaml"), "{error}");
            }
        }
    }
    if let Some(text) = text(file.1)
        && let Err(error) = HookYaml::parse(path, text)
    {
        assert_printable(&error);
    }
}

/// Input: a record file. It is equal after it was written and parsed again, or the error is printable.
pub fn record(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Record::parse(text) {
        Ok(record) => {
            let written = serde_json::to_string(&record).expect("JSON");
            assert_eq!(Record::parse(&written).expect("a record"), record);
        }
        Err(error) => assert_printable(&error),
    }
}

/// Line feeds are allowed, because each line of an error is printed as a line of its own.
fn assert_printable(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() < 16 << 10, "{}", text.len());
    let unprintable = text
        .chars()
        .find(|char| *char != '\n' && !is_printable(*char));
    assert_eq!(unprintable, None, "{text:?}");
}
