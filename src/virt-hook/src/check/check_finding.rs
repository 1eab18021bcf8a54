//! The result of one check.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::output::{Style, TerminalEscaped};

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CheckVerdict {
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
    verdict: CheckVerdict,
    /// One sentence.
    message: String,
    /// One line for each VMI, path or interface concerned.
    details: Vec<String>,
}

impl Finding {
    pub(super) fn new(
        check: &'static str,
        verdict: CheckVerdict,
        message: impl Into<String>,
    ) -> Self {
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
        otherwise: CheckVerdict,
        good: impl Into<String>,
        bad: impl Into<String>,
    ) -> Self {
        let finding = if details.is_empty() {
            Self::new(check, CheckVerdict::Passed, good)
        } else {
            Self::new(check, otherwise, bad)
        };
        Self { details, ..finding }
    }

    /// Like [`Self::unless`], for lines of the form `VMI: what`. Lines with the same `what` are joined.
    pub(super) fn unless_of_vmis(
        check: &'static str,
        lines: Vec<String>,
        otherwise: CheckVerdict,
        good: impl Into<String>,
        bad: impl Into<String>,
    ) -> Self {
        Self::unless(check, together(&lines), otherwise, good, bad)
    }

    pub(super) fn failed(&self) -> bool {
        self.verdict == CheckVerdict::Failed
    }

    pub(super) fn text(&self, style: Style) -> String {
        let word = match self.verdict {
            CheckVerdict::Passed => style.good("ok         "),
            CheckVerdict::Doubtful => style.doubtful("doubtful   "),
            CheckVerdict::Failed => style.bad("FAILED     "),
            CheckVerdict::NotChecked => style.doubtful("not checked"),
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

/// The verdict on all findings that were checked.
pub(super) fn overall(findings: &[Finding]) -> CheckVerdict {
    let has = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    [CheckVerdict::Failed, CheckVerdict::Doubtful]
        .into_iter()
        .find(|verdict| has(*verdict))
        .unwrap_or(CheckVerdict::Passed)
}

/// The verdict in one line.
pub(super) fn summary(findings: &[Finding], style: Style) -> String {
    let names = |verdict| -> Vec<&str> {
        let found = findings.iter().filter(|finding| finding.verdict == verdict);
        found.map(|finding| finding.check).collect()
    };
    let of_verdict = |verdict| {
        let names = names(verdict);
        format!("{} ({})", names.len(), names.join(", "))
    };
    let (doubtful, left_out) = (
        names(CheckVerdict::Doubtful),
        names(CheckVerdict::NotChecked),
    );
    let checked = findings.len() - left_out.len();
    let checked = match checked {
        1 => "1 check".to_owned(),
        count => format!("{count} checks"),
    };
    let mut line = match overall(findings) {
        CheckVerdict::Failed => {
            let failed = of_verdict(CheckVerdict::Failed);
            format!("{}: {failed} of {checked}", style.bad("failed"))
        }
        CheckVerdict::Doubtful => {
            let doubtful = of_verdict(CheckVerdict::Doubtful);
            format!("{}: {doubtful} of {checked}", style.doubtful("doubtful"))
        }
        CheckVerdict::Passed | CheckVerdict::NotChecked => {
            format!("{}: {checked}", style.good("ok"))
        }
    };
    if overall(findings) == CheckVerdict::Failed && !doubtful.is_empty() {
        line += &format!("; doubtful: {}", of_verdict(CheckVerdict::Doubtful));
    }
    if !left_out.is_empty() {
        line += &format!("; not checked: {}", of_verdict(CheckVerdict::NotChecked));
    }
    line + "\n"
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
            Finding::unless(check, details.collect(), CheckVerdict::Failed, "", "why")
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

    #[test]
    fn the_last_line_names_the_checks_that_did_not_pass() {
        let line = |verdicts: &[(&'static str, CheckVerdict)]| {
            let findings = verdicts
                .iter()
                .map(|(name, verdict)| Finding::new(name, *verdict, ""));
            let findings: Vec<Finding> = findings.collect();
            (overall(&findings), summary(&findings, Style::default()))
        };
        let (passed, doubtful) = (
            ("size", CheckVerdict::Passed),
            ("wishes", CheckVerdict::Doubtful),
        );
        let (failed, left_out) = (
            ("runs", CheckVerdict::Failed),
            ("schema", CheckVerdict::NotChecked),
        );
        for (findings, verdict, expected) in [
            (vec![passed], CheckVerdict::Passed, "ok: 1 check\n"),
            (
                vec![passed, passed, left_out],
                CheckVerdict::Passed,
                "ok: 2 checks; not checked: 1 (schema)\n",
            ),
            (
                vec![passed, doubtful, left_out],
                CheckVerdict::Doubtful,
                "doubtful: 1 (wishes) of 2 checks; not checked: 1 (schema)\n",
            ),
            (
                vec![passed, failed, doubtful, failed],
                CheckVerdict::Failed,
                "failed: 2 (runs, runs) of 4 checks; doubtful: 1 (wishes)\n",
            ),
        ] {
            assert_eq!(line(&findings), (verdict, expected.to_owned()));
        }
    }
}
