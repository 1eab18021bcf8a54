//! `virt-hook test`: a folder of cases, run as a pod would run them.
//!
//! A case is a directory with a VMI and what hooks make of it. All hook points that the hooks ask
//! for are run, in the order of a virtual machine's life. Modules are compiled once.

mod case_files;
mod expected_files;
mod policy_remedy;
mod shared_errors;
mod stale_module;
mod test_case;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use crate::cached_compilation;
use crate::exit_codes::Failure;
use crate::module_files::{self, HookModule};
use crate::output::{self, Report, Style, TerminalEscaped};
use expected_files::{Actual, Difference, ExpectedFiles};
use policy_remedy::PolicyRemedy;
use shared_errors::SharedError;
use test_case::Case;

pub(crate) const HELP: &str = "\
A case is a directory:
  vmi.yaml or vmi.json     the VMI
  options.json, host.json  as for render; a node that is the same everywhere when left out
  domain.xml               a domain instead of the VMI's conversion
  device.xml               a device that is attached to the running VM: OnAttachDevice alone is run, and
                           what is expected of a domain is expected of the device
  hook.yaml, policy.yaml   what the VM's owner and the operator say; one beside the cases is for the
                           cases without one
  pod.yaml                 facts about the pod: a Pod, or annotations, labels, networkStatus, networkInfo; the
                           policy has to allow them
  invocation.json          {\"reason\": \"migration-target\"}: the VM arrives from another node; without it, it boots
  migration.json           parameters of a migration, NAME to VALUE: PreMigrationSource alone is run
and one or more of what is expected:
  expected.diff            what hooks changed of the domain; empty for nothing: of a new case, write the vmi.yaml alone,
                           and give --update
  expected.xml             the whole domain instead
  expected.user-data, expected.network-data, expected.meta-data
                           cloud-init documents, those that hooks changed
  expected.migration       the parameters that hooks changed, a line `NAME: VALUE` each
  expected.veto            the hook's words when it says no
  expected.error           any other refusal, of the hook, the policy or the VMI; also one that failurePolicy in
                           hook.yaml ignores, beside what hooks changed
A file that looks like one of these and is none, such as vmi.yml or expected.network_data, is refused.

Examples:
  virt-hook test --hook smbios.wasm cases
  virt-hook test --hook smbios.wasm cases --update   # write down what is so, and review it

--update leaves a case alone, and it fails, if the case ends in an error that was not expected, or if
the hook does nothing, or refuses the VM, where it was expected to act: more likely a mistake than
what is wanted. --accept-errors writes that too.

Exit codes:
  0  every case is as expected, or was brought up to date
  1  a case is not as expected; standard output shows the difference
  2  the command line, a module or the folder of cases cannot be used
  3  this machine could not do it";

/// The note about a case that would pass with any hook.
const NO_CALLS: &str = "no hook was called: the VMI of a case for PreCloudInitIso has cloud-init data, a case for OnAttachDevice has \
    a device.xml, and one for PreMigrationSource a migration.json";

/// The note about cases that would pass with a hook that does nothing.
const ALL_IDLE: &str =
    "no case shows what the hook does: in none of them did it change or refuse anything";

/// What `test` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of cases, or one case
    #[arg(value_name = "DIR", default_value = "cases")]
    cases: PathBuf,
    /// A WASM hook, as for render. May be repeated
    #[arg(long = "hook", value_name = "DIR_OR_WASM", required = true)]
    hooks: Vec<PathBuf>,
    /// The operator's policy of cases without a policy.yaml, instead of the one beside the cases
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Write what is so into the cases, instead of comparing
    #[arg(long)]
    update: bool,
    /// With --update: also write errors, and that a hook does nothing, or refuses, where it was expected to act
    #[arg(long, requires = "update")]
    accept_errors: bool,
}

/// The results of all cases.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestReport {
    passed: usize,
    failed: usize,
    /// Cases that `--update` wrote.
    updated: usize,
    cases: Vec<CaseResult>,
    /// Modules compiled and cases run.
    millis: u64,
    /// Warnings about the VMIs, which standard error has.
    warnings: usize,
    /// What to do about a refusal that only an operator's policy can lift.
    #[serde(skip)]
    policy_remedy: Option<String>,
}

/// The result of a case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CaseResult {
    name: String,
    outcome: CaseOutcome,
    /// What is not as expected.
    differences: Vec<Difference>,
    /// Why `--update` did not write the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_written: Option<&'static str>,
    /// What to look at: in what `--update` wrote, or why nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    /// The error in which the case ends, and which was not expected.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    unexpected_error: Option<String>,
    /// Whether hooks changed nothing and refused nothing.
    #[serde(skip)]
    is_idle: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum CaseOutcome {
    Passed,
    Failed,
    Updated,
}

/// Runs all cases.
pub(crate) fn run(arguments: &Arguments) -> Result<TestReport, Failure> {
    let started = Instant::now();
    let policy = arguments.policy.as_deref();
    let cases = Case::find(&arguments.cases, policy).map_err(Failure::Usage)?;
    Case::check_shared_files(&cases)?;
    let found = module_files::find(&arguments.hooks).map_err(Failure::Usage)?;
    for hook in &found {
        if let Some(source) = stale_module::newer_source(&hook.module) {
            output::warn(&format!(
                "{} is older than {}: build it again",
                hook.module.display(),
                source.display()
            ));
        }
    }
    let kept = tempfile::tempdir()
        .context("making a temporary directory")
        .map_err(Failure::Machine)?;
    let compiled = kept.path().join("compiled");
    // A module that is not a hook, or is never called, is not a case's fault.
    cached_compilation::compile_once(&found, &compiled)?;
    let verdicts: Result<Vec<CaseResult>, Failure> = cases
        .iter()
        .map(|case| run_case(case, &found, &compiled, arguments))
        .collect();
    let remedy = PolicyRemedy {
        cases: &arguments.cases,
        policy,
        modules: &found,
    };
    Ok(TestReport::of(verdicts?, started, &remedy))
}

fn run_case(
    case: &Case,
    found: &[HookModule],
    compiled: &std::path::Path,
    arguments: &Arguments,
) -> Result<CaseResult, Failure> {
    let actual = case.run(found, compiled)?;
    let expected = ExpectedFiles::read(&case.dir)?;
    let differences = expected.against(&actual);
    let doubt = expected.doubt(&actual);
    let not_written = doubt.filter(|_| arguments.update && !arguments.accept_errors);
    let outcome = match (differences.is_empty(), arguments.update, not_written) {
        (true, _, _) => CaseOutcome::Passed,
        (false, false, _) | (false, true, Some(_)) => CaseOutcome::Failed,
        (false, true, None) => {
            expected
                .update(&case.dir, &actual)
                .map_err(Failure::Machine)?;
            CaseOutcome::Updated
        }
    };
    let begins_idle = outcome == CaseOutcome::Updated && expected.begins_idle(&actual);
    Ok(CaseResult {
        name: case.name.clone(),
        note: match actual.lacks_calls() {
            true => Some(NO_CALLS),
            false => begins_idle.then_some("writes that nothing changes"),
        },
        not_written: not_written.filter(|_| outcome == CaseOutcome::Failed),
        unexpected_error: match &actual {
            Actual::Error(error) if outcome == CaseOutcome::Failed && doubt.is_some() => {
                Some(with_likely_cause(error))
            }
            _ => None,
        },
        is_idle: actual.is_idle(),
        outcome,
        differences,
    })
}

/// An error with what it probably comes from. `expected.error` has the error alone.
fn with_likely_cause(error: &str) -> String {
    let is_deadline = error.contains(" did not answer ") && error.contains(" within ");
    match is_deadline {
        true => format!("{error}: an endless loop?"),
        false => error.to_owned(),
    }
}

/// An error of one case or several, the cause first.
fn line_of_error(style: Style, cases: &str, error: &str) -> String {
    let error = TerminalEscaped(error);
    format!("{}   {cases}: {error}\n", style.bad("ERROR"))
}

impl CaseResult {
    /// The result and what is to be seen from it. Instead of a difference, an error is its own first line.
    fn text(&self, style: Style, shared: &[SharedError<'_>]) -> String {
        let name = &self.name;
        let shared = shared.iter().find(|error| error.is_of(self));
        let mut text = match (self.outcome, shared, self.unexpected_error.as_deref()) {
            (CaseOutcome::Passed, ..) => format!("{}  {name}\n", style.good("passed")),
            (CaseOutcome::Updated, ..) => format!("{}  {name}\n", style.doubtful("updated")),
            // Printed with the first of its cases.
            (_, Some(error), _) if error.cases.first() != Some(&name.as_str()) => {
                return String::new();
            }
            (_, Some(error), _) => line_of_error(style, &error.cases.join(", "), error.error),
            (_, None, Some(error)) => line_of_error(style, name, error),
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
    fn of(cases: Vec<CaseResult>, started: Instant, remedy: &PolicyRemedy<'_>) -> Self {
        let mut errors = cases
            .iter()
            .filter_map(|case| case.unexpected_error.as_deref());
        let policy_remedy = errors.find_map(|error| remedy.of(error));
        let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
        Self {
            passed: count(CaseOutcome::Passed),
            failed: count(CaseOutcome::Failed),
            updated: count(CaseOutcome::Updated),
            millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            warnings: output::warnings(),
            cases,
            policy_remedy,
        }
    }
}

impl Report for TestReport {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let shared = shared_errors::of(&self.cases);
        for case in &self.cases {
            text += &case.text(style, &shared);
        }
        if self.cases.iter().all(|case| case.is_idle) {
            text += &format!("\n{}: {ALL_IDLE}\n", style.doubtful("note"));
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
                "{failed} of {all} cases are not as expected; the hook wants what only an operator's policy allows: {remedy}"
            ));
        }
        let errors = self
            .cases
            .iter()
            .filter(|case| case.unexpected_error.is_some());
        match (failed, not_written.next()) {
            (0, _) => None,
            (_, None) if errors.count() == failed => Some(format!(
                "{failed} of {all} cases end in an error that was not expected"
            )),
            (_, None) => Some(format!(
                "{failed} of {all} cases are not as expected; where they should be as they are now, give \
                 --update and review what it wrote"
            )),
            (_, Some(_)) => Some(format!(
                "{failed} of {all} cases were NOT written: the hook fails there, or does nothing or refuses \
                 where it was expected to act; mend it, or give --accept-errors if this is what is wanted"
            )),
        }
    }
}
