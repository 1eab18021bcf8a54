//! The difference between the outcomes of both sides for one VMI.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use domain_xml::Document;
use domain_xml::host::diff;
use serde::Serialize;

use super::vmi_outcome::VmiOutcome;
use crate::output::{ChangeReport, Style, unified_diff};

/// Whether both sides had the same effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ComparisonVerdict {
    Same,
    Different,
    /// Only one side refuses the VMI, or it is refused before any hook is called.
    Refused,
    /// Neither side read the domain, or the effect of one side is not known here.
    NotRun,
    /// The object is neither a VMI nor a VirtualMachine.
    NoVm,
}

/// The difference between two outcomes.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VmiComparison {
    pub(super) verdict: ComparisonVerdict,
    /// The side that refuses the VMI, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Changes from the original's domain to the port's.
    pub(super) changes: Vec<ChangeReport>,
    /// Unified diffs of the cloud-init documents that differ, by name.
    pub(super) documents: BTreeMap<String, String>,
    /// Failures that failure policies ignore. What the hook does when it works is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ignored_failures: Vec<String>,
}

impl VmiComparison {
    pub(super) fn between(original: &VmiOutcome, port: &VmiOutcome) -> Self {
        match (original, port) {
            (VmiOutcome::Unknown(why), _) => {
                let reason = format!("the original was not compared: {why}");
                Self::new(ComparisonVerdict::NotRun, Some(reason))
            }
            (_, VmiOutcome::Unknown(why)) => {
                let reason = format!("the hook was not compared: {why}");
                Self::new(ComparisonVerdict::NotRun, Some(reason))
            }
            (VmiOutcome::Refused(_), VmiOutcome::Refused(why)) => Self::new(
                ComparisonVerdict::Same,
                Some(format!("both refuse it: {why}")),
            ),
            (VmiOutcome::NotRun(original), VmiOutcome::NotRun(port)) => {
                let reason = format!(
                    "neither side read the domain; the original: {original}; the hook: {port}"
                );
                Self::new(ComparisonVerdict::NotRun, Some(reason))
            }
            (VmiOutcome::NotRun(original), VmiOutcome::Refused(port)) => {
                let reason =
                    format!("the original did not run: {original}; the hook refuses it: {port}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::Refused(original), VmiOutcome::NotRun(port)) => {
                let reason =
                    format!("the original refuses it: {original}; the hook did not run: {port}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::Refused(why), VmiOutcome::Completed { .. }) => {
                let reason = format!("only the original refuses it: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::NotRun(why), VmiOutcome::Completed { .. }) => {
                let reason = format!("the original did not run: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::Completed { .. }, VmiOutcome::Refused(why) | VmiOutcome::NotRun(why)) => {
                let reason = format!("the hook refuses it: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (
                VmiOutcome::Completed {
                    xml,
                    documents,
                    ignored_failures: of_original,
                },
                VmiOutcome::Completed {
                    xml: other_xml,
                    documents: other_documents,
                    ignored_failures: of_hook,
                },
            ) => {
                let comparison = match domain_changes(xml, other_xml) {
                    Ok(changes) => {
                        Self::from_changes(changes, document_diffs(documents, other_documents))
                    }
                    Err(reason) => Self::new(ComparisonVerdict::Different, Some(reason)),
                };
                let failed = |side: &str, failure: &String| {
                    format!("the {side} failed there (Ignore): {failure}")
                };
                let of_original = of_original.iter().map(|text| failed("original", text));
                let of_hook = of_hook.iter().map(|text| failed("hook", text));
                Self {
                    ignored_failures: of_original.chain(of_hook).collect(),
                    ..comparison
                }
            }
        }
    }

    /// The comparison if there is an original: a side with an ignored failure shows no effect that could be the same.
    pub(super) fn with_original(mut self) -> Self {
        if self.verdict == ComparisonVerdict::Same && !self.ignored_failures.is_empty() {
            self.verdict = ComparisonVerdict::Different;
        }
        self
    }

    /// The result for a VMI that is refused before a hook is called.
    pub(super) fn for_refused_vmi(refusal: &str) -> Self {
        let reason = format!("the VMI is refused: {refusal}");
        Self::new(ComparisonVerdict::Refused, Some(reason))
    }

    /// The result for an object that is neither a VMI nor a VirtualMachine.
    pub(super) fn for_other_object(reason: String) -> Self {
        Self::new(ComparisonVerdict::NoVm, Some(reason))
    }

    /// The result for an object that cannot be read, or is in a file that cannot be read.
    pub(super) fn for_unreadable_object(reason: &str) -> Self {
        Self::new(
            ComparisonVerdict::NotRun,
            Some(format!("it cannot be read: {reason}")),
        )
    }

    fn from_changes(changes: Vec<ChangeReport>, documents: BTreeMap<String, String>) -> Self {
        let verdict = match changes.is_empty() && documents.is_empty() {
            true => ComparisonVerdict::Same,
            false => ComparisonVerdict::Different,
        };
        Self {
            changes,
            documents,
            ..Self::new(verdict, None)
        }
    }

    fn new(verdict: ComparisonVerdict, reason: Option<String>) -> Self {
        Self {
            verdict,
            reason,
            changes: Vec::new(),
            documents: BTreeMap::new(),
            ignored_failures: Vec::new(),
        }
    }
}

fn domain_changes(before: &str, after: &str) -> Result<Vec<ChangeReport>, String> {
    let parse = |xml: &str| Document::parse(xml).map_err(|error| format!("not a domain: {error}"));
    let (before, after) = (parse(before)?, parse(after)?);
    Ok(diff(&before, &after).iter().map(Into::into).collect())
}

fn document_diffs(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let text = |documents: &BTreeMap<String, String>, name: &str| {
        documents.get(name).cloned().unwrap_or_default()
    };
    let names = before.keys().chain(after.keys());
    let differing = names.filter(|name| before.get(*name) != after.get(*name));
    differing
        .map(|name| {
            let diff = unified_diff(Style::default(), &text(before, name), &text(after, name));
            (name.clone(), diff)
        })
        .collect()
}
