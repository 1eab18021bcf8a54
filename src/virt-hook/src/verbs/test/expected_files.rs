//! Compares the results of a case with its `expected.*` files.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use domain_xml::host::diff;

use super::actual_result::{ActualResult, Difference, changes_text, parse};
use crate::inputs::input_file;
use crate::output_file;
use crate::verb_failure::Failure;

/// The beginning of the names of all expected files.
pub(super) const PREFIX: &str = "expected.";
const XML_NAME: &str = "xml";
const DIFF_NAME: &str = "diff";
const VETO_NAME: &str = "veto";
const ERROR_NAME: &str = "error";
const DOCUMENT_NAMES: [&str; 4] = ["user-data", "network-data", "meta-data", "migration"];
/// The names of all expected files, without [`PREFIX`].
pub(super) const NAMES: [&str; 8] = [
    XML_NAME,
    DIFF_NAME,
    VETO_NAME,
    ERROR_NAME,
    DOCUMENT_NAMES[0],
    DOCUMENT_NAMES[1],
    DOCUMENT_NAMES[2],
    DOCUMENT_NAMES[3],
];
/// Maximum size of an expected file in bytes.
const MAX_FILE_BYTES: usize = 8 << 20;

/// The contents of a case's `expected.*` files, by the names without [`PREFIX`].
#[derive(Debug)]
pub(super) struct ExpectedFiles(BTreeMap<String, String>);

impl ExpectedFiles {
    pub(super) fn read(dir: &Path) -> Result<Self, Failure> {
        let mut files = BTreeMap::new();
        for name in NAMES {
            let path = dir.join(format!("{PREFIX}{name}"));
            if path.symlink_metadata().is_ok() {
                files.insert(name.to_owned(), input_file::text(&path, MAX_FILE_BYTES)?);
            }
        }
        Ok(Self(files))
    }

    /// The differences of a result from the expected files; empty if it is as expected.
    pub(super) fn differences(&self, actual: &ActualResult) -> Vec<Difference> {
        if self.0.is_empty() {
            let advice = "the case has no expected result: give --update, and review the expected.* files that it writes";
            let files = self.files(actual);
            let text: String = files
                .iter()
                .map(|(name, text)| titled(name, text))
                .collect();
            return vec![Difference::new(advice, "", &text)];
        }
        let files = self.files(actual);
        let names: BTreeSet<&String> = self.0.keys().chain(files.keys()).collect();
        let compare = |name: &&String| compare(name, self.0.get(*name), files.get(*name));
        names.iter().filter_map(compare).collect()
    }

    /// The reason why a result that is not as expected looks like a mistake of the hook.
    pub(super) fn doubt(&self, actual: &ActualResult) -> Option<&'static str> {
        match actual {
            ActualResult::Error(_) if !self.0.contains_key(ERROR_NAME) => {
                Some("the case ends in an unexpected error")
            }
            ActualResult::Domain {
                discarded_failures, ..
            } if !discarded_failures.is_empty() && !self.0.contains_key(ERROR_NAME) => {
                Some("a hook fails here unexpectedly, and failurePolicy hides it")
            }
            ActualResult::Domain {
                before,
                xml,
                documents,
                discarded_failures,
                ..
            } if documents.is_empty() && changes_text(before, xml).is_empty() => {
                let is_idle = |(name, text): (&String, &String)| match name.as_str() {
                    DIFF_NAME => text.trim().is_empty(),
                    XML_NAME => changes_text(before, text).is_empty(),
                    ERROR_NAME => !discarded_failures.is_empty(),
                    _ => false,
                };
                (!self.0.iter().all(is_idle))
                    .then_some("the hook does nothing here, and was expected to act")
            }
            ActualResult::Veto(_) if self.expects_change() => {
                Some("the hook refuses the VM here, and was expected to change it")
            }
            _ => None,
        }
    }

    /// Whether the expected files are those of a hook that changes something. A whole domain may be unchanged.
    fn expects_change(&self) -> bool {
        self.0.iter().any(|(name, text)| match name.as_str() {
            DIFF_NAME => !text.trim().is_empty(),
            XML_NAME | VETO_NAME | ERROR_NAME => false,
            _ => true,
        })
    }

    /// Whether this is a new case, without expected files, in which nothing changes.
    pub(super) fn is_new_without_changes(&self, actual: &ActualResult) -> bool {
        let files = self.files(actual);
        let is_idle = |(name, text): (&String, &String)| name == DIFF_NAME && text.is_empty();
        self.0.is_empty() && files.iter().all(is_idle)
    }

    /// Writes the expected files for a result, and removes the others.
    pub(super) fn update(&self, dir: &Path, actual: &ActualResult) -> anyhow::Result<()> {
        let files = self.files(actual);
        let path = |name: &str| dir.join(format!("{PREFIX}{name}"));
        for name in self.0.keys().filter(|name| !files.contains_key(*name)) {
            let path = path(name);
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        for (name, text) in &files {
            output_file::write(&path(name), text.as_bytes())?;
        }
        Ok(())
    }

    /// The contents that the expected files would have for a result.
    fn files(&self, actual: &ActualResult) -> BTreeMap<String, String> {
        let line = |text: &str| format!("{}\n", text.trim_end());
        match actual {
            ActualResult::Veto(text) => BTreeMap::from([(VETO_NAME.to_owned(), line(text))]),
            ActualResult::Error(text) => BTreeMap::from([(ERROR_NAME.to_owned(), line(text))]),
            ActualResult::Domain {
                before,
                xml,
                documents,
                discarded_failures,
                ..
            } => {
                let mut files = documents.clone();
                if !discarded_failures.is_empty() {
                    files.insert(ERROR_NAME.to_owned(), line(&discarded_failures.join("\n")));
                }
                let changes_text = changes_text(before, xml);
                if self.0.contains_key(XML_NAME) {
                    files.insert(XML_NAME.to_owned(), line(xml));
                }
                let has_diff = self.0.contains_key(DIFF_NAME) || !changes_text.is_empty();
                if (has_diff || files.is_empty()) && !files.contains_key(XML_NAME) {
                    files.insert(DIFF_NAME.to_owned(), changes_text);
                }
                files
            }
        }
    }
}

fn titled(name: &str, text: &str) -> String {
    format!("{PREFIX}{name}:\n{text}")
}

fn compare(name: &str, expected: Option<&String>, actual: Option<&String>) -> Option<Difference> {
    let file = format!("{PREFIX}{name}");
    match (expected, actual) {
        (Some(expected), Some(actual)) => compare_texts(name, &file, expected, actual),
        (Some(expected), None) => {
            let heading = format!("{file}: there is no such result");
            Some(Difference::new(heading, expected, ""))
        }
        (None, actual) => {
            let heading = format!("{file}: there is no such file, and this is the result");
            Some(Difference::new(
                heading,
                "",
                actual.map_or("", String::as_str),
            ))
        }
    }
}

/// Compares domains structurally, and other texts by lines.
fn compare_texts(name: &str, file: &str, expected: &str, actual: &str) -> Option<Difference> {
    let heading = match name {
        DIFF_NAME if expected.trim().is_empty() => format!(
            "{file}: it is empty, so nothing may change, but hooks change this; if that is right, --update writes it"
        ),
        _ => format!("{file}: - expected, + actual"),
    };
    if name == XML_NAME {
        return match (parse(expected), parse(actual)) {
            (Ok(before), Ok(after)) if diff(&before, &after).is_empty() => None,
            (Ok(_), Ok(_)) => {
                let mut difference = Difference::new(heading, "", "");
                difference.diff = changes_text(expected, actual).replace("    ", "");
                Some(difference)
            }
            (Err(error), _) => Some(Difference::new(format!("{file}: {error}"), "", "")),
            _ => Some(Difference::new(heading, expected, actual)),
        };
    }
    let without_trailing_blanks = |text: &str| -> String {
        let lines = text.trim_end().lines();
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    };
    let (expected, actual) = (
        without_trailing_blanks(expected),
        without_trailing_blanks(actual),
    );
    (expected != actual).then(|| Difference::new(heading, &expected, &actual))
}
