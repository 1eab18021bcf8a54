//! Compares the results of a case with its `expected.*` files.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;
use domain_xml::{Document, diff};
use hook_host::AttachedDevice;
use serde::Serialize;

use crate::exit_codes::Failure;
use crate::inputs::input_file;
use crate::output::{ChangeReport, Style, changes, lines};

pub(super) const PREFIX: &str = "expected.";
const XML: &str = "xml";
const DIFF: &str = "diff";
const VETO: &str = "veto";
const ERROR: &str = "error";
const DOCUMENTS: [&str; 4] = ["user-data", "network-data", "meta-data", "migration"];
/// What can be expected.
pub(super) const NAMES: [&str; 8] = [
    XML,
    DIFF,
    VETO,
    ERROR,
    DOCUMENTS[0],
    DOCUMENTS[1],
    DOCUMENTS[2],
    DOCUMENTS[3],
];
/// Of one file, in bytes.
const LARGEST: usize = 8 << 20;

/// The results of hooks for a case.
#[derive(Debug)]
pub(super) enum Actual {
    /// The virtual machine would start.
    Domain {
        before: String,
        xml: String,
        /// The documents, and as `migration` the parameters of a migration, that hooks changed.
        documents: BTreeMap<String, String>,
        /// Whether any hook ran.
        is_hook_called: bool,
        /// Failures and vetoes that change nothing, because `hook.yaml` has another failure policy than Fail; a line each.
        discarded_failures: Vec<String>,
    },
    /// A hook vetoes.
    Veto(String),
    /// Any other error.
    Error(String),
}

/// The files of a case that begin with `expected.`, by the rest of their names.
#[derive(Debug)]
pub(super) struct ExpectedFiles(BTreeMap<String, String>);

/// A difference from the expected result.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// In one sentence.
    what: String,
    /// The lines that differ, as a unified diff from what is expected.
    diff: String,
}

impl Difference {
    fn of(what: impl Into<String>, expected: &str, actual: &str) -> Self {
        Self {
            what: what.into(),
            diff: lines(Style::default(), expected, actual),
        }
    }

    pub(super) fn text(&self, style: Style) -> String {
        let mut text = format!("  {}\n", self.what);
        for line in self.diff.lines() {
            let line = match line.as_bytes().first() {
                Some(b'-') => style.bad(line),
                Some(b'+') => style.good(line),
                _ => line.to_owned(),
            };
            text += &format!("    {line}\n");
        }
        text
    }
}

impl Actual {
    /// The same result with other texts of the failures that change nothing.
    pub(super) fn map_failures(mut self, text: impl Fn(String) -> String) -> Self {
        if let Self::Domain {
            discarded_failures, ..
        } = &mut self
        {
            let failures = std::mem::take(discarded_failures);
            *discarded_failures = failures.into_iter().map(text).collect();
        }
        self
    }

    /// Whether hooks changed nothing, refused nothing and did not fail.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Domain {
                before,
                xml,
                documents,
                discarded_failures,
                ..
            } => {
                documents.is_empty()
                    && discarded_failures.is_empty()
                    && changed(before, xml).is_empty()
            }
            Self::Veto(_) | Self::Error(_) => false,
        }
    }

    /// Whether nothing changed because no hook ran.
    pub(super) fn lacks_calls(&self) -> bool {
        matches!(
            self,
            Self::Domain {
                is_hook_called: false,
                ..
            }
        )
    }
}

impl ExpectedFiles {
    pub(super) fn read(dir: &Path) -> Result<Self, Failure> {
        let mut files = BTreeMap::new();
        for name in NAMES {
            let path = dir.join(format!("{PREFIX}{name}"));
            if path.symlink_metadata().is_ok() {
                files.insert(name.to_owned(), input_file::text(&path, LARGEST)?);
            }
        }
        Ok(Self(files))
    }

    /// The differences; empty if the result is as expected.
    pub(super) fn against(&self, actual: &Actual) -> Vec<Difference> {
        if self.0.is_empty() {
            let advice = "nothing is expected: give --update, and review the expected.* files that it writes";
            let is = self.files(actual);
            let is: String = is.iter().map(|(name, text)| titled(name, text)).collect();
            return vec![Difference::of(advice, "", &is)];
        }
        let is = self.files(actual);
        let names: BTreeSet<&String> = self.0.keys().chain(is.keys()).collect();
        let compare = |name: &&String| compare(name, self.0.get(*name), is.get(*name));
        names.iter().filter_map(compare).collect()
    }

    /// Why a result that is not as expected looks like a mistake of the hook.
    pub(super) fn doubt(&self, actual: &Actual) -> Option<&'static str> {
        match actual {
            Actual::Error(_) if !self.0.contains_key(ERROR) => {
                Some("the case ends in an error, which was not expected")
            }
            Actual::Domain {
                discarded_failures, ..
            } if !discarded_failures.is_empty() && !self.0.contains_key(ERROR) => {
                Some("a hook fails here and failurePolicy hides it, which was not expected")
            }
            Actual::Domain {
                before,
                xml,
                documents,
                discarded_failures,
                ..
            } if documents.is_empty() && changed(before, xml).is_empty() => {
                let is_idle = |(name, text): (&String, &String)| match name.as_str() {
                    DIFF => text.trim().is_empty(),
                    XML => changed(before, text).is_empty(),
                    ERROR => !discarded_failures.is_empty(),
                    _ => false,
                };
                (!self.0.iter().all(is_idle))
                    .then_some("the hook does nothing here, and was expected to act")
            }
            Actual::Veto(_) if self.expects_change() => {
                Some("the hook refuses the VM here, and was expected to change it")
            }
            _ => None,
        }
    }

    /// Whether the expected files have a VM that starts with something changed. A whole domain may be unchanged.
    fn expects_change(&self) -> bool {
        self.0.iter().any(|(name, text)| match name.as_str() {
            DIFF => !text.trim().is_empty(),
            XML | VETO | ERROR => false,
            _ => true,
        })
    }

    /// Whether a case that expects nothing so far gets an expectation that nothing changes.
    pub(super) fn begins_idle(&self, actual: &Actual) -> bool {
        let files = self.files(actual);
        let is_idle = |(name, text): (&String, &String)| name == DIFF && text.is_empty();
        self.0.is_empty() && files.iter().all(is_idle)
    }

    /// Writes the expected files for a result and removes the others.
    pub(super) fn update(&self, dir: &Path, actual: &Actual) -> anyhow::Result<()> {
        let is = self.files(actual);
        let path = |name: &str| dir.join(format!("{PREFIX}{name}"));
        for name in self.0.keys().filter(|name| !is.contains_key(*name)) {
            let path = path(name);
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        for (name, text) in &is {
            let (path, part) = (path(name), dir.join(format!(".{PREFIX}{name}.part")));
            whole(&path, &part, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// The contents that the expected files should have.
    fn files(&self, actual: &Actual) -> BTreeMap<String, String> {
        let line = |text: &str| format!("{}\n", text.trim_end());
        match actual {
            Actual::Veto(text) => BTreeMap::from([(VETO.to_owned(), line(text))]),
            Actual::Error(text) => BTreeMap::from([(ERROR.to_owned(), line(text))]),
            Actual::Domain {
                before,
                xml,
                documents,
                discarded_failures,
                ..
            } => {
                let mut files = documents.clone();
                if !discarded_failures.is_empty() {
                    files.insert(ERROR.to_owned(), line(&discarded_failures.join("\n")));
                }
                let changed = changed(before, xml);
                if self.0.contains_key(XML) {
                    files.insert(XML.to_owned(), line(xml));
                }
                let wanted = self.0.contains_key(DIFF) || !changed.is_empty();
                if (wanted || files.is_empty()) && !files.contains_key(XML) {
                    files.insert(DIFF.to_owned(), changed);
                }
                files
            }
        }
    }
}

fn titled(name: &str, text: &str) -> String {
    format!("{PREFIX}{name}:\n{text}")
}

fn whole(path: &Path, part: &Path, text: &str) -> io::Result<()> {
    fs::write(part, text).and_then(|()| fs::rename(part, path))
}

/// A domain, or an attached device as the only one of a domain, so that paths are those of a domain.
fn parse(xml: &str) -> Result<Document, String> {
    match AttachedDevice::parse(xml) {
        Ok(device) => Ok(device.as_domain().clone()),
        Err(_) => Document::parse(xml).map_err(|error| error.to_string()),
    }
}

/// The changes of a domain or a device in the format of `expected.diff`.
fn changed(before: &str, after: &str) -> String {
    match (parse(before), parse(after)) {
        (Ok(before), Ok(after)) => {
            let reports: Vec<ChangeReport> = diff(&before, &after).iter().map(Into::into).collect();
            let mut text = String::new();
            changes(&mut text, Style::default(), &reports);
            text
        }
        // The chain returns only well-formed XML.
        _ => lines(Style::default(), before, after),
    }
}

fn compare(name: &str, expected: Option<&String>, actual: Option<&String>) -> Option<Difference> {
    let file = format!("{PREFIX}{name}");
    match (expected, actual) {
        (Some(expected), Some(actual)) => same(name, &file, expected, actual),
        (Some(expected), None) => {
            let what = format!("{file}: it did not come to this");
            Some(Difference::of(what, expected, ""))
        }
        (None, actual) => {
            let what = format!("{file}: there is no such file, and it came to this");
            Some(Difference::of(what, "", actual.map_or("", String::as_str)))
        }
    }
}

/// Compares domains structurally, other texts by lines.
fn same(name: &str, file: &str, expected: &str, actual: &str) -> Option<Difference> {
    let what = match name {
        DIFF if expected.trim().is_empty() => format!(
            "{file}: it is empty, so that nothing may change, and hooks change this; if that is right, --update writes it"
        ),
        _ => format!("{file}: - expected, + actual"),
    };
    if name == XML {
        return match (parse(expected), parse(actual)) {
            (Ok(before), Ok(after)) if diff(&before, &after).is_empty() => None,
            (Ok(_), Ok(_)) => {
                let mut difference = Difference::of(what, "", "");
                difference.diff = changed(expected, actual).replace("    ", "");
                Some(difference)
            }
            (Err(error), _) => Some(Difference::of(format!("{file}: {error}"), "", "")),
            _ => Some(Difference::of(what, expected, actual)),
        };
    }
    let plain = |text: &str| -> String {
        let lines = text.trim_end().lines();
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    };
    let (expected, actual) = (plain(expected), plain(actual));
    (expected != actual).then(|| Difference::of(what, &expected, &actual))
}
