//! The outcomes of both hooks for one VMI, and their differences.

use std::collections::BTreeMap;

use domain_xml::{Document, diff};
use serde::Serialize;

use crate::cloud_init_by_name;
use crate::inputs::VmiInput;
use crate::output::{ChangeReport, RunReport, Style, lines};
use crate::run_hooks_as_launcher::HookResults;

const NO_POD: &str = "no facts about the pod here; give some with --pod";

/// What one side made of a VMI.
pub(super) enum VmiOutcome {
    Made {
        xml: String,
        documents: BTreeMap<String, String>,
        /// The failures that its failure policy ignores.
        ignored_failures: Vec<String>,
    },
    /// It vetoes or fails: the VM would not start.
    Refused(String),
    /// It failed before it looked at the domain, which tells nothing of its effect: the VM would not start either.
    NotRun(String),
    /// It needs what only a cluster has: neither its effect nor whether the VM would start is known.
    Unknown(String),
}

/// Whether both sides had the same effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ComparisonVerdict {
    Same,
    Different,
    /// Only one side refuses the VMI, or conversion does.
    Refused,
    /// Neither side looked at the domain, or the effect of one is not known here.
    NotRun,
    /// The object is none of a VM.
    NoVm,
}

/// The difference between two outcomes.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VmiComparison {
    pub(super) verdict: ComparisonVerdict,
    /// Who refuses, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// From the original's domain to the port's.
    pub(super) changes: Vec<ChangeReport>,
    /// Lines that differ, by cloud-init document.
    pub(super) documents: BTreeMap<String, String>,
    /// The failures that failure policies ignore: nothing is known of what a hook would do that works.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ignored_failures: Vec<String>,
}

/// The cloud-init documents before any hook.
pub(super) fn documents(input: &VmiInput) -> BTreeMap<String, String> {
    let data = input.cloud_init.as_ref().ok().and_then(Option::as_ref);
    data.map(cloud_init_by_name::documents_by_name)
        .unwrap_or_default()
}

impl VmiOutcome {
    pub(super) fn unchanged(input: &VmiInput) -> Self {
        Self::Made {
            xml: input.xml.clone(),
            documents: documents(input),
            ignored_failures: Vec::new(),
        }
    }

    pub(super) fn of_hooks(input: &VmiInput, results: HookResults) -> Self {
        if results.lacks_pod_facts {
            return Self::Unknown(NO_POD.to_owned());
        }
        if let Some(error) = results.error {
            return Self::Refused(error.to_string());
        }
        let hooked = results.cloud_init.as_ref();
        let failures = results.runs.iter().filter_map(RunReport::ignored_failure);
        Self::Made {
            ignored_failures: failures.collect(),
            xml: results.xml,
            documents: hooked
                .map_or_else(|| documents(input), cloud_init_by_name::documents_by_name),
        }
    }
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
                    "neither looked at the domain, the original: {original}; the hook: {port}"
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
            (VmiOutcome::Refused(why), VmiOutcome::Made { .. }) => {
                let reason = format!("only the original refuses it: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::NotRun(why), VmiOutcome::Made { .. }) => {
                let reason = format!("the original did not run: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (VmiOutcome::Made { .. }, VmiOutcome::Refused(why) | VmiOutcome::NotRun(why)) => {
                let reason = format!("the hook refuses it: {why}");
                Self::new(ComparisonVerdict::Refused, Some(reason))
            }
            (
                VmiOutcome::Made {
                    xml,
                    documents,
                    ignored_failures: of_original,
                },
                VmiOutcome::Made {
                    xml: other_xml,
                    documents: others,
                    ignored_failures: of_hook,
                },
            ) => {
                let effect = match domains(xml, other_xml) {
                    Ok(changes) => Self::of(changes, between_documents(documents, others)),
                    Err(reason) => Self::new(ComparisonVerdict::Different, Some(reason)),
                };
                let failed = |side: &str, failure: &String| {
                    format!("the {side} failed there (Ignore): {failure}")
                };
                let of_original = of_original.iter().map(|one| failed("original", one));
                let of_hook = of_hook.iter().map(|one| failed("hook", one));
                Self {
                    ignored_failures: of_original.chain(of_hook).collect(),
                    ..effect
                }
            }
        }
    }

    /// The verdict if there is an original: a side that failed shows no effect that could be the same.
    pub(super) fn in_comparison_with_original(mut self) -> Self {
        if self.verdict == ComparisonVerdict::Same && !self.ignored_failures.is_empty() {
            self.verdict = ComparisonVerdict::Different;
        }
        self
    }

    /// The VMI is refused before a hook is called.
    pub(super) fn of_refused_vmi(refusal: &str) -> Self {
        let reason = format!("the VMI is refused: {refusal}");
        Self::new(ComparisonVerdict::Refused, Some(reason))
    }

    /// The object is no VM.
    pub(super) fn of_other_object(reason: String) -> Self {
        Self::new(ComparisonVerdict::NoVm, Some(reason))
    }

    /// The object or its file cannot be read.
    pub(super) fn of_unreadable(reason: &str) -> Self {
        Self::new(
            ComparisonVerdict::NotRun,
            Some(format!("it cannot be read: {reason}")),
        )
    }

    fn of(changes: Vec<ChangeReport>, documents: BTreeMap<String, String>) -> Self {
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

fn domains(before: &str, after: &str) -> Result<Vec<ChangeReport>, String> {
    let parse = |xml: &str| Document::parse(xml).map_err(|error| format!("no domain: {error}"));
    let (before, after) = (parse(before)?, parse(after)?);
    Ok(diff(&before, &after).iter().map(Into::into).collect())
}

fn between_documents(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let text =
        |of: &BTreeMap<String, String>, name: &str| of.get(name).cloned().unwrap_or_default();
    let names = before.keys().chain(after.keys());
    let differing = names.filter(|name| before.get(*name) != after.get(*name));
    differing
        .map(|name| {
            let diff = lines(Style::default(), &text(before, name), &text(after, name));
            (name.clone(), diff)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(xml: &str) -> VmiOutcome {
        VmiOutcome::Made {
            xml: xml.to_owned(),
            documents: BTreeMap::new(),
            ignored_failures: Vec::new(),
        }
    }

    fn refused(why: &str) -> VmiOutcome {
        VmiOutcome::Refused(why.to_owned())
    }

    #[test]
    fn content_counts_and_notation_does_not() {
        let one = made("<domain><a x='1'/><b/></domain>");
        let same = VmiComparison::between(
            &one,
            &made("<domain>\n  <b></b>\n  <a x=\"1\"/>\n</domain>"),
        );
        assert_eq!(
            (same.verdict, same.changes.len()),
            (ComparisonVerdict::Same, 0)
        );
        let other = VmiComparison::between(&one, &made("<domain><a x='2'/><b/></domain>"));
        assert_eq!(other.verdict, ComparisonVerdict::Different);
        assert_eq!(other.changes[0].path, "/domain/a/@x");
    }

    #[test]
    fn sides_that_did_not_run_are_never_the_same() {
        let (made, refused) = (made("<domain/>"), refused("no"));
        let not_run = VmiOutcome::NotRun("usage".to_owned());
        for (original, port, verdict, reason) in [
            (
                &not_run,
                &not_run,
                ComparisonVerdict::NotRun,
                "the original: usage; the hook: usage",
            ),
            (
                &not_run,
                &refused,
                ComparisonVerdict::Refused,
                "did not run: usage; the hook refuses it: no",
            ),
            (
                &refused,
                &not_run,
                ComparisonVerdict::Refused,
                "refuses it: no; the hook did not run: usage",
            ),
            (
                &not_run,
                &made,
                ComparisonVerdict::Refused,
                "the original did not run: usage",
            ),
            (
                &made,
                &not_run,
                ComparisonVerdict::Refused,
                "the hook refuses it: usage",
            ),
        ] {
            let effect = VmiComparison::between(original, port);
            assert_eq!(effect.verdict, verdict, "{reason}");
            let found = effect.reason.unwrap_or_default();
            assert!(found.ends_with(reason), "{found}");
        }
    }

    #[test]
    fn side_with_unknown_effect_is_not_compared() {
        let unknown = VmiOutcome::Unknown("no facts".to_owned());
        for (original, port) in [
            (&unknown, &refused("no")),
            (&refused("no"), &unknown),
            (&made("<domain/>"), &unknown),
            (&unknown, &unknown),
        ] {
            let effect = VmiComparison::between(original, port);
            assert_eq!(effect.verdict, ComparisonVerdict::NotRun);
            let reason = effect.reason.unwrap_or_default();
            assert!(reason.ends_with("was not compared: no facts"), "{reason}");
        }
    }

    #[test]
    fn two_refusals_are_the_same_and_one_is_not() {
        let domain = made("<domain/>");
        assert_eq!(
            VmiComparison::between(&refused("a"), &refused("b")).verdict,
            ComparisonVerdict::Same
        );
        for effect in [
            VmiComparison::between(&domain, &refused("no")),
            VmiComparison::between(&refused("no"), &domain),
        ] {
            assert_eq!(effect.verdict, ComparisonVerdict::Refused);
            assert!(
                effect
                    .reason
                    .is_some_and(|reason| reason.ends_with("refuses it: no"))
            );
        }
    }
}
