//! The result of one check.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::output::{Style, TerminalEscaped};

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// The check passed.
    Passed,
    /// Perhaps not what the author meant.
    Doubtful,
    /// The check failed.
    Failed,
    /// The check could not be made on this machine.
    NotChecked,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// One sentence.
    message: String,
    /// One line for each VMI, path or interface concerned.
    details: Vec<String>,
}

impl Finding {
    pub(super) fn new(check: &'static str, verdict: Verdict, message: impl Into<String>) -> Self {
        Self {
            check,
            verdict,
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// Passed if there are no details, else `otherwise`.
    pub(super) fn unless(
        check: &'static str,
        details: Vec<String>,
        otherwise: Verdict,
        good: impl Into<String>,
        bad: impl Into<String>,
    ) -> Self {
        let finding = if details.is_empty() {
            Self::new(check, Verdict::Passed, good)
        } else {
            Self::new(check, otherwise, bad)
        };
        Self { details, ..finding }
    }

    /// Like [`Self::unless`], for lines of the form `VMI: what`. Lines with the same `what` are joined.
    pub(super) fn unless_of_vmis(
        check: &'static str,
        lines: Vec<String>,
        otherwise: Verdict,
        good: impl Into<String>,
        bad: impl Into<String>,
    ) -> Self {
        Self::unless(check, together(&lines), otherwise, good, bad)
    }

    pub(super) fn failed(&self) -> bool {
        self.verdict == Verdict::Failed
    }

    pub(super) fn text(&self, style: Style) -> String {
        let word = match self.verdict {
            Verdict::Passed => style.good("ok         "),
            Verdict::Doubtful => style.doubtful("doubtful   "),
            Verdict::Failed => style.bad("FAILED     "),
            Verdict::NotChecked => style.doubtful("not checked"),
        };
        let mut text = format!(
            "{word}  {}: {}\n",
            self.check,
            TerminalEscaped(&self.message)
        );
        for detail in &self.details {
            text += &format!("               {}\n", TerminalEscaped(detail));
        }
        text
    }
}

/// Checks that fail for the reason that the hook is not idempotent: each runs the hook on what it made.
const OF_SECOND_RUN: [&str; 2] = ["migration", "after libvirt"];

/// Shortens the findings that follow from one before, on the VMIs of that one.
pub(super) fn mark_consequences(findings: &mut [Finding]) {
    let mut failed = findings.iter().filter(|finding| finding.failed());
    let cause = failed.find(|finding| finding.check == "idempotent");
    let vmis: BTreeSet<String> = cause
        .iter()
        .flat_map(|cause| &cause.details)
        .flat_map(|detail| vmis_of(detail).map(str::to_owned))
        .collect();
    let later = findings
        .iter_mut()
        .filter(|finding| finding.failed() && OF_SECOND_RUN.contains(&finding.check));
    for finding in later {
        let all = finding.details.len();
        let has_own_cause = |detail: &String| vmis_of(detail).any(|vmi| !vmis.contains(vmi));
        finding.details.retain(has_own_cause);
        if all > 0 && finding.details.is_empty() {
            finding.message = "probably a consequence of `idempotent`: mend that first".to_owned();
        }
    }
}

/// The VMIs of a line `VMI, VMI: what`.
fn vmis_of(detail: &str) -> impl Iterator<Item = &str> {
    let (names, _) = detail.split_once(": ").unwrap_or((detail, ""));
    names.split(", ")
}

fn together(lines: &[String]) -> Vec<String> {
    let mut messages: Vec<(String, &str)> = Vec::new();
    for line in lines {
        let (name, what) = line.split_once(": ").unwrap_or(("", line));
        match messages.iter_mut().find(|(_, known)| *known == what) {
            Some((names, _)) => *names += &format!(", {name}"),
            None => messages.push((name.to_owned(), what)),
        }
    }
    let lines = messages.iter();
    lines
        .map(|(names, what)| format!("{names}: {what}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_the_hook_again_follows_from_a_hook_that_is_not_idempotent() {
        let failed = |check, details: &[&str]| {
            let details = details.iter().map(|detail| (*detail).to_owned());
            Finding::unless(check, details.collect(), Verdict::Failed, "", "why")
        };
        let mut alone = [failed("migration", &["a: b"]), failed("runs", &["a: b"])];
        mark_consequences(&mut alone);
        assert!(alone.iter().all(|finding| finding.message == "why"));
        let mut all = [
            failed("runs", &["a: b"]),
            failed("idempotent", &["a, b: more"]),
            failed("migration", &["a: title", "b: title"]),
            failed("after libvirt", &["a: title", "b, c: own"]),
        ];
        mark_consequences(&mut all);
        let left = all
            .iter()
            .map(|finding| (finding.message == "why", finding.details.join(" ")));
        let left: Vec<(bool, String)> = left.collect();
        let expected = [
            (true, "a: b"),
            (true, "a, b: more"),
            (false, ""),
            (true, "b, c: own"),
        ];
        assert_eq!(
            left,
            expected.map(|(is_same, text)| (is_same, text.to_owned()))
        );
    }

    #[test]
    fn equal_details_of_several_vmis_are_joined() {
        let lines = ["a: x: 1", "b: y", "c: x: 1"].map(str::to_owned);
        assert_eq!(together(&lines), ["a, c: x: 1", "b: y"]);
        assert_eq!(together(&[]), [""; 0]);
    }
}
