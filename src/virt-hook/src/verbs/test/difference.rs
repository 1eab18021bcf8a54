//! A difference between the expected and the actual result of a case.

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::AttachedDevice;
use serde::Serialize;

use crate::output::{ChangeReport, Style, unified_diff, write_changes};

/// A difference from the expected result.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// The difference in one sentence.
    pub(super) what: String,
    /// The unified diff from the expected to the actual result.
    pub(super) diff: String,
}

impl Difference {
    pub(super) fn new(what: impl Into<String>, expected: &str, actual: &str) -> Self {
        Self {
            what: what.into(),
            diff: unified_diff(Style::default(), expected, actual),
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

/// Parses a domain, or an attached device as the only device of a domain, so that paths are those of a domain.
pub(super) fn parse(xml: &str) -> Result<Document, String> {
    match AttachedDevice::parse(xml) {
        Ok(device) => Ok(device.as_domain().clone()),
        Err(_) => Document::parse(xml).map_err(|error| error.to_string()),
    }
}

/// The changes of a domain or a device, in the format of `expected.diff`.
pub(super) fn changes_text(before: &str, after: &str) -> String {
    match (parse(before), parse(after)) {
        (Ok(before), Ok(after)) => {
            let reports: Vec<ChangeReport> = diff(&before, &after).iter().map(Into::into).collect();
            let mut text = String::new();
            write_changes(&mut text, Style::default(), &reports);
            text
        }
        // The chain returns only well-formed XML.
        _ => unified_diff(Style::default(), before, after),
    }
}
