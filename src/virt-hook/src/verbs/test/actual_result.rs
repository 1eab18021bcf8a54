//! The result of hooks for a case.

use std::collections::BTreeMap;

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::{AttachedDevice, HookError};
use serde::Serialize;

use crate::cloud_init_documents_by_name::cloud_init_documents_by_name;
use crate::collected_hooks::HookResults;
use crate::inputs::VmiInput;
use crate::output::{ChangeReport, RunReport, Style, unified_diff, write_changes};

/// The result of hooks for a case.
#[derive(Debug)]
pub(super) enum ActualResult {
    /// The VM would start.
    Domain {
        before: String,
        xml: String,
        /// The documents that hooks changed, and the changed parameters of a migration under the name `migration`.
        documents: BTreeMap<String, String>,
        /// Whether any hook ran.
        is_hook_called: bool,
        /// Failures and vetoes without effect, because `hook.yaml` has another failure policy than Fail; one line each.
        discarded_failures: Vec<String>,
    },
    /// A hook vetoes.
    Veto(String),
    /// Any other error.
    Error(String),
}

impl ActualResult {
    /// The result from the runs of all hooks.
    pub(super) fn from_hook_results(input: &VmiInput, results: HookResults) -> Self {
        if let Some(error) = results.error {
            return match error {
                HookError::Veto { message, .. } => Self::Veto(message),
                other => Self::Error(other.to_string()),
            };
        }
        // A failure at Shutdown does not stop the chain, but it fails the case.
        let failures = || results.runs.iter().filter(|run| !run.is_ok());
        if let Some(run) = failures().find(|run| run.failure_policy == "Fail") {
            return Self::Error(run.reason.clone().unwrap_or_default());
        }
        let discarded_failures = failures().map(discarded_failure).collect();
        let before = input.cloud_init.as_ref().ok().and_then(Option::as_ref);
        let before = before.map(cloud_init_documents_by_name).unwrap_or_default();
        let after = results
            .cloud_init
            .as_ref()
            .map(cloud_init_documents_by_name);
        let mut changed: BTreeMap<String, String> = after
            .unwrap_or_default()
            .into_iter()
            .filter(|(name, text)| before.get(name) != Some(text))
            .collect();
        if let Some(after) = &results.migration {
            let differences = input.migration.differences(after).into_iter();
            let lines: String = differences
                .map(|(parameter, _, after)| format!("{parameter}: {after}\n"))
                .collect();
            if !lines.is_empty() {
                changed.insert("migration".to_owned(), lines);
            }
        }
        let (before, xml) = match (input.devices.first(), results.devices.first()) {
            (Some(before), Some(after)) => (before.clone(), after.clone()),
            _ => (input.xml.clone(), results.xml),
        };
        Self::Domain {
            before,
            xml,
            documents: changed,
            is_hook_called: !results.runs.is_empty(),
            discarded_failures,
        }
    }

    /// The same result with other texts of the discarded failures.
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

    /// Whether hooks neither changed nor refused anything, and did not fail.
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
                    && changes_text(before, xml).is_empty()
            }
            Self::Veto(_) | Self::Error(_) => false,
        }
    }

    /// Whether nothing changed because no hook was called.
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

/// The line of `expected.error` about a failure or veto that has no effect because of the failure policy in
/// `hook.yaml`.
fn discarded_failure(run: &RunReport) -> String {
    let reason = run.reason.as_deref().unwrap_or(&run.outcome);
    format!(
        "{} at {} (failurePolicy: {}): {reason}",
        run.hook, run.hook_point, run.failure_policy
    )
}

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

#[cfg(test)]
mod tests;
