//! The result of one check.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::output::{Style, TerminalEscaped};

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CheckVerdict {
    /// The check passed.
    Passed,
    /// The result is perhaps not what the author meant.
    Doubtful,
    /// The check failed.
    Failed,
    /// The check was not made: this machine lacks what it needs, or the domains are not given to libvirt.
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

    /// A finding that passes if there are no details, and has the verdict `otherwise` if there are some.
    pub(super) fn from_details(
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

    /// Like [`Self::from_details`], for lines of the form `VMI: message`. Lines with the same message are joined.
    pub(super) fn from_vmi_lines(
        check: &'static str,
        lines: Vec<String>,
        otherwise: CheckVerdict,
        good: impl Into<String>,
        bad: impl Into<String>,
    ) -> Self {
        Self::from_details(check, join_equal_messages(&lines), otherwise, good, bad)
    }

    pub(super) fn failed(&self) -> bool {
        self.verdict == CheckVerdict::Failed
    }

    pub(super) fn not_checked(&self) -> bool {
        self.verdict == CheckVerdict::NotChecked
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

/// The worst verdict of all findings; checks that were not made do not count.
pub(super) fn overall(findings: &[Finding]) -> CheckVerdict {
    let has = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    [CheckVerdict::Failed, CheckVerdict::Doubtful]
        .into_iter()
        .find(|verdict| has(*verdict))
        .unwrap_or(CheckVerdict::Passed)
}

/// The overall verdict in one line, with the names of the checks that did not pass.
pub(super) fn summary(findings: &[Finding], style: Style) -> String {
    let names = |verdict| -> Vec<&str> {
        let matching = findings.iter().filter(|finding| finding.verdict == verdict);
        matching.map(|finding| finding.check).collect()
    };
    let count_and_names = |verdict| {
        let names = names(verdict);
        format!("{} ({})", names.len(), names.join(", "))
    };
    let (doubtful, not_checked) = (
        names(CheckVerdict::Doubtful),
        names(CheckVerdict::NotChecked),
    );
    let checked = findings.len() - not_checked.len();
    let checked = match checked {
        1 => "1 check".to_owned(),
        count => format!("{count} checks"),
    };
    let mut line = match overall(findings) {
        CheckVerdict::Failed => {
            let failed = count_and_names(CheckVerdict::Failed);
            format!("{}: {failed} of {checked}", style.bad("failed"))
        }
        CheckVerdict::Doubtful => {
            let doubtful = count_and_names(CheckVerdict::Doubtful);
            format!("{}: {doubtful} of {checked}", style.doubtful("doubtful"))
        }
        CheckVerdict::Passed | CheckVerdict::NotChecked => {
            format!("{}: {checked}", style.good("ok"))
        }
    };
    if overall(findings) == CheckVerdict::Failed && !doubtful.is_empty() {
        line += &format!("; doubtful: {}", count_and_names(CheckVerdict::Doubtful));
    }
    if !not_checked.is_empty() {
        line += &format!(
            "; not checked: {}",
            count_and_names(CheckVerdict::NotChecked)
        );
    }
    line + "\n"
}

/// Checks that run the hook on its own output, so that they also fail if the hook is not idempotent.
const SECOND_RUN_CHECKS: [&str; 2] = ["migration", "after libvirt"];

/// Removes details from the findings of [`SECOND_RUN_CHECKS`] if the finding `idempotent` has failed on the same VMIs.
pub(super) fn mark_consequences(findings: &mut [Finding]) {
    let mut failed = findings.iter().filter(|finding| finding.failed());
    let cause = failed.find(|finding| finding.check == "idempotent");
    let vmis: BTreeSet<String> = cause
        .iter()
        .flat_map(|cause| &cause.details)
        .flat_map(|detail| vmis_of(detail).map(str::to_owned))
        .collect();
    let consequences = findings
        .iter_mut()
        .filter(|finding| finding.failed() && SECOND_RUN_CHECKS.contains(&finding.check));
    for finding in consequences {
        let all = finding.details.len();
        let has_own_cause = |detail: &String| vmis_of(detail).any(|vmi| !vmis.contains(vmi));
        finding.details.retain(has_own_cause);
        if all > 0 && finding.details.is_empty() {
            finding.message = "probably a consequence of `idempotent`: fix that first".to_owned();
        }
    }
}

/// The VMIs of a line `VMI, VMI: message`.
fn vmis_of(detail: &str) -> impl Iterator<Item = &str> {
    let (names, _) = detail.split_once(": ").unwrap_or((detail, ""));
    names.split(", ")
}

/// Joins the lines `VMI: message` that have the same message.
fn join_equal_messages(lines: &[String]) -> Vec<String> {
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
