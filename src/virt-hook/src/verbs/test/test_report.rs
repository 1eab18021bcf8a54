//! The report of `test`: the results of all cases.

use std::time::Instant;

use serde::Serialize;

use super::super::test;
use super::test_case::{CaseOutcome, CaseResult};
use super::{PolicyRemedy, SharedError};
use crate::output::{self, Report, Style, TerminalEscaped};

/// The note about cases that would pass with a hook that does nothing.
const ALL_IDLE_NOTE: &str =
    "no case shows what the hook does: it changes and refuses nothing in any of them";

/// The results of all cases.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestReport {
    passed: usize,
    failed: usize,
    /// Number of cases that `--update` wrote.
    updated: usize,
    cases: Vec<CaseResult>,
    /// Duration of compiling the modules and running the cases.
    millis: u64,
    /// Number of warnings about the VMIs, which are on standard error.
    warnings: usize,
    /// The remedy for a refusal that only an operator's policy can lift.
    #[serde(skip)]
    policy_remedy: Option<String>,
}

/// The line about an error in which one or several cases end.
fn error_line(style: Style, cases: &str, error: &str) -> String {
    let error = TerminalEscaped(error);
    format!("{}   {cases}: {error}\n", style.bad("ERROR"))
}

impl CaseResult {
    /// The result with its differences and notes. For an unexpected error the first line has the error instead of
    /// differences.
    fn text(&self, style: Style, shared: &[SharedError<'_>]) -> String {
        let name = &self.name;
        let shared = shared.iter().find(|error| error.is_error_of(self));
        let mut text = match (self.outcome, shared, self.unexpected_error.as_deref()) {
            (CaseOutcome::Passed, ..) => format!("{}  {name}\n", style.good("passed")),
            (CaseOutcome::Updated, ..) => format!("{}  {name}\n", style.doubtful("updated")),
            // The error was printed with the first of its cases.
            (_, Some(error), _) if error.cases.first() != Some(&name.as_str()) => {
                return String::new();
            }
            (_, Some(error), _) => error_line(style, &error.cases.join(", "), error.error),
            (_, None, Some(error)) => error_line(style, name, error),
            (_, None, None) => format!("{}  {name}\n", style.bad("FAILED")),
        };
        if let Some(why) = self.not_written {
            text += &format!("  {}: {why}\n", style.bad("not written"));
        }
        if let Some(note) = self.note {
            text += &format!("  {}: {note}\n", style.doubtful("note"));
        }
        if self.outcome == CaseOutcome::Failed && self.unexpected_error.is_none() {
            let differences = self.differences.iter();
            text.extend(differences.map(|difference| difference.text(style)));
        }
        text
    }
}

impl TestReport {
    pub(super) fn new(cases: Vec<CaseResult>, started: Instant, remedy: &PolicyRemedy<'_>) -> Self {
        let mut errors = cases
            .iter()
            .filter_map(|case| case.unexpected_error.as_deref());
        let policy_remedy = errors.find_map(|error| remedy.for_error(error));
        let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
        Self {
            passed: count(CaseOutcome::Passed),
            failed: count(CaseOutcome::Failed),
            updated: count(CaseOutcome::Updated),
            millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            warnings: output::warning_count(),
            cases,
            policy_remedy,
        }
    }
}

impl Report for TestReport {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let shared = test::find(&self.cases);
        for case in &self.cases {
            text += &case.text(style, &shared);
        }
        if self.cases.iter().all(|case| case.is_idle) {
            text += &format!("\n{}: {ALL_IDLE_NOTE}\n", style.doubtful("note"));
        }
        let warnings = match self.warnings {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            count => format!(", {count} warnings"),
        };
        text + &format!(
            "\n{} passed, {} failed, {} updated{warnings}, in {} ms\n",
            self.passed, self.failed, self.updated, self.millis
        )
    }

    fn complaint(&self) -> Option<String> {
        let (failed, all) = (self.failed, self.cases.len());
        let mut not_written = self.cases.iter().filter_map(|case| case.not_written);
        if let Some(remedy) = &self.policy_remedy {
            return Some(format!(
                "{failed} of {all} cases do not have the expected result; the hook wants what only an operator's policy allows: {remedy}"
            ));
        }
        let errors = self
            .cases
            .iter()
            .filter(|case| case.unexpected_error.is_some());
        match (failed, not_written.next()) {
            (0, _) => None,
            (_, None) if errors.count() == failed => Some(format!(
                "{failed} of {all} cases end in an unexpected error"
            )),
            (_, None) => Some(format!(
                "{failed} of {all} cases do not have the expected result; if the actual results are right, give \
                 --update and review what it wrote"
            )),
            (_, Some(_)) => Some(format!(
                "{failed} of {all} cases were NOT written: the hook fails there, or does nothing or refuses \
                 where it was expected to act; fix it, or give --accept-errors if this is intended"
            )),
        }
    }
}
